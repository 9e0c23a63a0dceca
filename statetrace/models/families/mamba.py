"""Mamba: a recurrent family, in which a state is carried from token to token inside every block.

Purpose: an architecture in which a sequential mechanism might exist. Blocks write to a residual
stream like those of a transformer, so probing, patching and geometry work by hooks; there is no
attention, and no longest sequence.
Cost: plain PyTorch computes the positions one after another, so a step takes several times as long
as that of a transformer of the same size.
Caveat: a block multiplies each coordinate of its state by a number between 0 and 1, so one block
cannot even track parity at all lengths; that takes depth, as in a transformer.
"""

from __future__ import annotations

import logging
from typing import Any

from statetrace.models.families.family import Family, Size
from statetrace.models.families.generic import GenericAnatomy


def fields(size: Size, positions: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": size.layers,
        "hidden_size": size.width,
        "state_size": 16,
        "expand": 2,
        "conv_kernel": 4,
        "layer_norm_epsilon": 1e-5,
        "residual_in_fp32": True,
        "tie_word_embeddings": True,
    }


def _size(layers: int, width: int) -> Size:
    return Size(layers=layers, width=width, heads=1, positions=1)  # heads and positions are unused


def _chosen(record: logging.LogRecord) -> bool:
    """Whether to keep a message of transformers: not the one on the plain implementation."""
    return "falling back to its reference PyTorch implementation" not in record.getMessage()


logging.getLogger("transformers.integrations.hub_kernels").addFilter(_chosen)

FAMILY = Family(
    name="mamba",
    model_type="mamba",
    sizes={
        "mamba": _size(24, 768),  # the size of GPT-2, Mamba-130m
        "mamba-130m": _size(24, 768),
        "mamba-370m": _size(48, 1024),
        "mamba-790m": _size(48, 1536),
        "mamba-1.4b": _size(48, 2048),
        "mamba-2.8b": _size(64, 2560),
    },
    fields=fields,
    dropout_fields=(),
    anatomy=GenericAnatomy,
    attends=False,
)
