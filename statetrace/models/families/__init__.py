"""One file per model family, and the registry that is the only place to choose among them."""

from __future__ import annotations

from typing import Any

from statetrace.models.anatomy import Anatomy
from statetrace.models.families import gemma, gpt2, llama, mamba, pythia, qwen
from statetrace.models.families.family import Family, Size
from statetrace.models.families.generic import GenericAnatomy

__all__ = ["FAMILIES", "Family", "Size", "anatomy", "anatomy_class", "family_of", "size_named"]

FAMILIES: tuple[Family, ...] = (
    gpt2.FAMILY,
    pythia.FAMILY,
    llama.FAMILY,
    qwen.FAMILY,
    gemma.FAMILY,
    mamba.FAMILY,
)


def size_named(name: str) -> tuple[Family, Size] | None:
    """The family and published size of a preset or bare family name, None if there is none."""
    return next(((f, f.sizes[name]) for f in FAMILIES if name in f.sizes), None)


def family_of(config: Any) -> Family | None:
    """The family of a Hugging Face configuration, None for one without a file of its own."""
    return next((family for family in FAMILIES if family.model_type == config.model_type), None)


def anatomy_class(config: Any) -> type[Anatomy]:
    family = family_of(config)
    if family is not None and family.anatomy.reads(config):
        return family.anatomy
    return GenericAnatomy


def anatomy(model: Any) -> Anatomy:
    """The map of any Hugging Face causal language model."""
    return anatomy_class(model.config)(model)
