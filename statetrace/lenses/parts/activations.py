"""The residual stream of every layer at chosen positions of many sequences.

Purpose: one forward pass serves all layers and positions. By causality position p does not depend
on later tokens, so the positions of a long sequence are the last positions of its prefixes, and
tokens after the last requested position are not run.
Cost: (L + 1) · N · k · D numbers on the device of the model (see `bytes_needed`), plus one batch.
The final norm and the unembedding are skipped.
Caveat: the result has the dtype of the model, such as bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.capture import Edit, overwrite
from statetrace.interventions.sites import Site, sites_of
from statetrace.models import Anatomy, anatomy
from statetrace.models.predict import evaluating

ELEMENTS = {"cpu": 2**19, "cuda": 2**26}
"""Default size of one [B, T, D] activation: about the cache of a CPU, or enough to keep a GPU
busy."""


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

    positions are k positions for all sequences, or [N, k] positions per sequence, in tokens
    including the start marker. result[:, :, j] is contiguous. `done` is called with the finished
    share.
    """
    reader = anatomy(model)
    weight = reader.embedding.weight
    assert isinstance(weight, Tensor)
    at = _positions(positions, tokens, reader).to(weight.device)  # [N, k]
    tokens = tokens[:, : int(at.max()) + 1]
    n, k = at.shape
    stream = torch.empty(
        (k, reader.layers + 1, n, reader.width), dtype=_dtype(reader), device=weight.device
    )
    batch = batch or batch_size(reader, tokens.shape[1], weight.device)
    rows = slice(0)

    def keep(layer: int) -> Edit:
        def read(resid: Tensor) -> Tensor:  # [B, T, D]
            index = at[rows, :, None].expand(-1, -1, resid.shape[-1])
            stream[:, layer, rows] = resid.gather(1, index).transpose(0, 1).to(stream.dtype)
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
    return stream.permute(1, 2, 0, 3)


def chosen_layers(layers: Sequence[int] | None, last: int) -> tuple[int, ...]:
    """In order, without repeats; all for None."""
    if layers is None:
        return tuple(range(last + 1))
    for layer in layers:
        if not 0 <= layer <= last:
            raise StatetraceError(
                f"the model has no layer {layer}; use 0 (the embedding) to {last} (the last block)"
            )
    return tuple(sorted(set(layers)))


def bytes_needed(model: Any, sequences: int, positions: int) -> int:
    """Bytes of the result of `residuals`."""
    reader = anatomy(model)
    return (reader.layers + 1) * sequences * positions * reader.width * _dtype(reader).itemsize


def batch_size(reader: Anatomy, length: int, device: torch.device) -> int:
    """Sequences of `length` tokens to run at a time."""
    return max(1, ELEMENTS.get(device.type, ELEMENTS["cuda"]) // (length * reader.width))


def _dtype(reader: Anatomy) -> torch.dtype:
    return next(reader.blocks[0].parameters()).dtype


def _positions(positions: Sequence[int] | Tensor, tokens: Tensor, reader: Anatomy) -> Tensor:
    """As [N, k]; missing positions and unknown tokens are refused."""
    at = torch.as_tensor(positions, dtype=torch.long)
    at = at.expand(len(tokens), -1) if at.dim() == 1 else at
    length = tokens.shape[1]
    if at.dim() != 2 or len(at) != len(tokens) or not at.numel():
        raise StatetraceError(
            f"positions of shape {tuple(at.shape)} do not match {len(tokens)} sequences; use a "
            "list of positions, or one list per sequence"
        )
    if int(at.min()) < 0 or int(at.max()) >= length:
        bad = int(at.min()) if int(at.min()) < 0 else int(at.max())
        raise StatetraceError(
            f"there is no position {bad} in {length} tokens; use 0 to {length - 1}"
        )
    longest = int(at.max()) + 1
    if reader.max_length is not None and longest > reader.max_length:
        raise StatetraceError(
            f"{longest} tokens exceed the {reader.max_length} positions of the model; "
            "use shorter sequences"
        )
    weight = reader.embedding.weight
    assert isinstance(weight, Tensor)
    vocabulary = len(weight)
    if int(tokens.max()) >= vocabulary:
        raise StatetraceError(
            f"token id {int(tokens.max())} is not among the {vocabulary} tokens of the model"
        )
    return at
