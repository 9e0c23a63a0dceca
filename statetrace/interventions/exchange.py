"""Exchange a part of the residual stream between two runs.

Purpose: `Exchange` runs a base and a source sequence of every pair once. `logits(layer, basis)` are
those of the base run in which, after block `layer`, the component inside the span of the basis is
the source's: x + B Bᵀ (y - x), from position `start` on. Gradients reach the basis.
Cost: two forward passes; then per call the positions from `start` on in the blocks above. Models
are causal, so positions before `start` keep the keys and values of the base run, which are cached:
2 · L · P · T · D numbers. Families without cached patching run a full forward pass per call.
Caveat: call it inside `evaluating`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrace.interventions.capture import capture, overwrite
from statetrace.interventions.fullrun import run_tokens
from statetrace.interventions.sites import Site, sites_of
from statetrace.models import anatomy, causal_mask


class Exchange:
    """Some pairs, ready for exchanges at any layer (0 is the embedding)."""

    def __init__(self, model: Any, base: Tensor, source: Tensor, start: int) -> None:
        """base, source: tokens [P, T]; `start`: the first position to exchange."""
        self.model, self.tokens, self.start = model, base, start
        self.read = anatomy(model)
        sites = sites_of("resid", self.read)
        if self.read.fast:
            self.cache = run_tokens(self.read, base, frozenset({"resid", "kv", "top"}))
            before = self.cache.resid
            after = run_tokens(self.read, source, frozenset({"resid", "top"})).resid
        else:
            before, after = (
                {site.layer: stream for site, stream in capture(model, tokens, sites).items()}
                for tokens in (base, source)
            )
        self.resid = {layer: stream[:, start:] for layer, stream in before.items()}  # [P, T', D]
        self.change = {layer: after[layer][:, start:] - self.resid[layer] for layer in before}

    def logits(self, layer: int, basis: Tensor | None, complement: bool = False) -> Tensor:
        """Logits at the last position [P, V]. basis [D, k] has orthonormal columns, and None stands
        for the whole space; with `complement`, everything outside of the span is exchanged."""
        change = self.change[layer]
        if basis is not None:
            basis = basis.to(change.dtype)
            inside = (change @ basis) @ basis.mT
            change = change - inside if complement else inside
        resid = self.resid[layer] + change
        return self._cached(layer, resid) if self.read.fast else self._hooked(layer, resid)

    def _cached(self, layer: int, resid: Tensor) -> Tensor:
        read, start = self.read, self.start
        everywhere = torch.arange(self.tokens.shape[1], device=resid.device)
        positions, mask = everywhere[start:], causal_mask(everywhere[start:], everywhere)
        for block in range(layer, read.layers):
            q, k, v = read.qkv(block, resid, positions)
            if start:
                k = torch.cat((self.cache.k[block + 1][:, :, :start], k), dim=2)
                v = torch.cat((self.cache.v[block + 1][:, :, :start], v), dim=2)
            attn_out = read.attn_out(block, read.attend(block, q, k, v, mask))
            resid = read.combine(block, resid, attn_out, read.mlp_out(block, resid, attn_out))
        return read.unembed(resid[:, -1:])[:, -1]

    def _hooked(self, layer: int, resid: Tensor) -> Tensor:
        def edit(stream: Tensor) -> Tensor:
            return torch.cat((stream[:, : self.start], resid), dim=1)

        with overwrite(self.model, {Site("resid", layer): edit}):
            logits: Tensor = self.model(self.tokens, use_cache=False).logits
        return logits[:, -1]
