"""Forward passes over whole sequences that cache activations for `CachedPatcher`.

Cost: one forward pass; the last block is computed at the last position only, unless the residual
stream above it ("top") or its z is to be held. Cached per pair, position and layer: keys and
values, and on request the residual stream, the queries and the z of the heads, each of width D.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from statetrace.interventions.sites import Site
from statetrace.models import Anatomy, causal_mask


@dataclass
class FullRun:
    """The cached activations of one run, by block 1..L. n is P, or 1 if all pairs are equal."""

    resid: dict[int, Tensor] = field(default_factory=dict)  # [n, T, D] after the block
    q: dict[int, Tensor] = field(default_factory=dict)  # [n, H, T, head_width]
    k: dict[int, Tensor] = field(default_factory=dict)  # [n, n_kv_heads, T, head_width]
    v: dict[int, Tensor] = field(default_factory=dict)
    z: dict[int, Tensor] = field(default_factory=dict)  # [n, T, H * head_width]
    # logits [n, V] at the last position, if the run got there
    answer: Tensor = field(default_factory=lambda: torch.empty(0))


HOLD_ALL = frozenset({"resid", "q", "kv", "z"})


def run_tokens(read: Anatomy, tokens: Tensor, hold: frozenset[str]) -> FullRun:
    """tokens [P, T] -> the run, with the activations of every block that `hold` names."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    resid = read.embed(tokens, positions)
    run = FullRun(resid={0: resid} if "resid" in hold else {})
    _continue(read, run, resid, 0, hold)
    return run


def run_from(read: Anatomy, resid: Tensor, layer: int, to_the_end: bool) -> FullRun:
    """The run with `resid` [n, T, D] after block `layer`: the queries of the next block, and the
    keys and values of the next block or (`to_the_end`) of all blocks above."""
    run = FullRun(resid={layer: resid})
    if to_the_end:
        _continue(read, run, resid, layer, frozenset({"kv"}))
    elif layer < read.layers:
        positions = torch.arange(resid.shape[1], device=resid.device)
        run.q[layer + 1], run.k[layer + 1], run.v[layer + 1] = read.qkv(layer, resid, positions)
    return run


def _continue(read: Anatomy, run: FullRun, resid: Tensor, layer: int, hold: frozenset[str]) -> None:
    positions = torch.arange(resid.shape[1], device=resid.device)
    for block in range(layer, read.layers):
        q, k, v = read.qkv(block, resid, positions)
        if "kv" in hold:
            run.k[block + 1], run.v[block + 1] = k, v
        if "q" in hold or ("kv" in hold and block == layer):
            run.q[block + 1] = q
        mask = None
        if block == read.layers - 1 and not hold & {"z", "top"}:
            q, resid, mask = q[:, :, -1:], resid[:, -1:], causal_mask(positions[-1:], positions)
        z = read.attend(block, q, k, v, mask)
        attn_out = read.attn_out(block, z)
        resid = read.combine(block, resid, attn_out, read.mlp_out(block, resid, attn_out))
        if "z" in hold:
            run.z[block + 1] = z
        if "resid" in hold:
            run.resid[block + 1] = resid
    run.answer = read.unembed(resid[:, -1:])[:, -1]


def patched_everywhere(read: Anatomy, site: Site, base: FullRun, donor: FullRun | None) -> Tensor:
    """The residual stream after block `site.layer` with the site overwritten at every position, by
    the activations of `donor` or by zeros. [P, T, D], or [1, T, D] if all pairs are equal.

    A patch inside a block affects the output of the block position by position, because attention
    comes before it. These vectors are therefore valid for every window.
    """
    if site.kind == "resid":
        zeros_or = torch.zeros_like(base.resid[site.layer][:1])
        return zeros_or if donor is None else donor.resid[site.layer]
    block = site.layer - 1
    resid, z = base.resid[block], base.z[site.layer]
    if site.kind == "head":
        assert site.head is not None
        assert read.head_width is not None
        first = site.head * read.head_width
        part = slice(first, first + read.head_width)
        z = z.clone()
        z[..., part] = 0 if donor is None else donor.z[site.layer][..., part]
    attn_out = read.attn_out(block, z)
    if site.kind in ("attn_out", "mlp_out") and donor is not None:
        theirs = read.attn_out(block, donor.z[site.layer])
    if site.kind == "attn_out":
        attn_out = torch.zeros_like(attn_out) if donor is None else theirs
    if site.kind != "mlp_out":
        mlp_out = read.mlp_out(block, resid, attn_out)
    elif donor is None:
        mlp_out = torch.zeros_like(resid)
    else:
        mlp_out = read.mlp_out(block, donor.resid[block], theirs)
    return read.combine(block, resid, attn_out, mlp_out)
