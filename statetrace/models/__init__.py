"""Families of language models, pretrained or from scratch, and the map of their parts."""

from statetrace.models.anatomy import Anatomy, causal_mask
from statetrace.models.build import (
    ParameterCount,
    attends,
    build,
    check_label,
    layer_count,
    parameter_count,
    positions,
)
from statetrace.models.checkpoint import load_checkpoint, locate_tokenizer
from statetrace.models.families import anatomy
from statetrace.models.pretrained import load_pretrained
from statetrace.models.spec import ModelSpec, model_names

__all__ = [
    "Anatomy",
    "ModelSpec",
    "ParameterCount",
    "anatomy",
    "attends",
    "build",
    "causal_mask",
    "check_label",
    "layer_count",
    "load_checkpoint",
    "load_pretrained",
    "locate_tokenizer",
    "model_names",
    "parameter_count",
    "positions",
]
