"""The residual stream of every layer at chosen positions of many sequences.

Purpose: one forward pass serves all layers and positions. By causality the stream at position p is
the same whatever follows, so the positions of a long sequence are the last positions of its
prefixes, and nothing after the last position asked for is run.
Cost: (L + 1) · N · k · D numbers on the model's device, besides one batch at work; `bytes_needed`
tells beforehand. The final norm and the unembedding are not run at all.
Caveat: the numbers have the model's own dtype; a bfloat16 model gives bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.capture import Edit, evaluating, overwrite
from statetrace.interventions.sites import Site, sites_of
from statetrace.models import Anatomy, anatomy

ELEMENTS = {"cpu": 2**20, "cuda": 2**26}
"""Numbers of one [B, T, D] activation in a batch of default size: about a CPU's cache, or enough to
keep a GPU busy."""


@torch.no_grad()
def residuals(
    model: Any,
    tokens: Tensor,
    positions: Sequence[int] | Tensor,
    batch: int | None = None,
    done: Callable[[float], None] | None = None,
) -> Tensor:
    """tokens [N, T] -> the residual stream [L + 1, N, k, D]: layer 0 is the embedding, layer l the
    output of block l.

    positions are k positions for all sequences, or [N, k], for each its own; they count tokens, the
    start marker too. For one position j, result[:, :, j] is contiguous. `done` hears now and then
    which share of the sequences has been through.
    """
    reader = anatomy(model)
    weight = reader.embedding.weight
    assert isinstance(weight, Tensor)
    at = _positions(positions, tokens, reader).to(weight.device)  # [N, k]
    tokens = tokens[:, : int(at.max()) + 1]
    n, k = at.shape
    found = torch.empty(
        (k, reader.layers + 1, n, reader.width), dtype=_dtype(reader), device=weight.device
    )
    batch = batch or batch_size(reader, tokens.shape[1], weight.device)
    rows = slice(0)

    def keep(layer: int) -> Edit:
        def read(resid: Tensor) -> Tensor:  # [B, T, D]
            wanted = at[rows, :, None].expand(-1, -1, resid.shape[-1])
            found[:, layer, rows] = resid.gather(1, wanted).transpose(0, 1).to(found.dtype)
            return resid

        return read

    edits: dict[Site, Edit] = {site: keep(site.layer) for site in sites_of("resid", reader)}
    body = getattr(model, "base_model", model)  # without the unembedding
    with evaluating(model), overwrite(model, edits):
        for start in range(0, n, batch):
            rows = slice(start, min(start + batch, n))
            body(tokens[rows].to(weight.device), use_cache=False)
            if done is not None:
                done(rows.stop / n)
    return found.permute(1, 2, 0, 3)


def bytes_needed(model: Any, sequences: int, positions: int) -> int:
    """What `residuals` will hold for so many sequences and positions of each."""
    reader = anatomy(model)
    return (reader.layers + 1) * sequences * positions * reader.width * _dtype(reader).itemsize


def batch_size(reader: Anatomy, length: int, device: torch.device) -> int:
    """Sequences of `length` tokens to run at a time."""
    return max(1, ELEMENTS.get(device.type, ELEMENTS["cuda"]) // (length * reader.width))


def _dtype(reader: Anatomy) -> torch.dtype:
    return next(reader.blocks[0].parameters()).dtype


def _positions(positions: Sequence[int] | Tensor, tokens: Tensor, reader: Anatomy) -> Tensor:
    """As [N, k], refused where there is no such position or token."""
    at = torch.as_tensor(positions, dtype=torch.long)
    at = at.expand(len(tokens), -1) if at.dim() == 1 else at
    length = tokens.shape[1]
    if at.dim() != 2 or len(at) != len(tokens) or not at.numel():
        raise StatetraceError(
            f"positions of shape {tuple(at.shape)} do not go with {len(tokens)} sequences; give a "
            "list of positions, or one list for each sequence"
        )
    if int(at.min()) < 0 or int(at.max()) >= length:
        bad = int(at.min()) if int(at.min()) < 0 else int(at.max())
        raise StatetraceError(
            f"there is no position {bad} in {length} tokens; use 0 to {length - 1}"
        )
    longest = int(at.max()) + 1
    if reader.max_length is not None and longest > reader.max_length:
        raise StatetraceError(
            f"{longest} tokens were given, but the model has {reader.max_length} positions; "
            "use shorter sequences"
        )
    weight = reader.embedding.weight
    assert isinstance(weight, Tensor)
    vocabulary = len(weight)
    if int(tokens.max()) >= vocabulary:
        raise StatetraceError(
            f"token id {int(tokens.max())} is not among the {vocabulary} tokens the model knows"
        )
    return at
