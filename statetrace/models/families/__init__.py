"""Model families: one file each, and registered ones; the only place that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.models.anatomy import Anatomy
from statetrace.models.families import gemma, gpt2, llama, mamba, pythia, qwen
from statetrace.models.families.family import Family, Size
from statetrace.models.families.generic import GenericAnatomy

__all__ = ["Family", "Size", "anatomy", "anatomy_class", "families", "family_of", "size_named"]

FAMILIES: tuple[Family, ...] = (
    gpt2.FAMILY,
    pythia.FAMILY,
    llama.FAMILY,
    qwen.FAMILY,
    gemma.FAMILY,
    mamba.FAMILY,
)


def families() -> Iterator[Family]:
    """The built-in families, then registered ones, which are loaded only when reached."""
    yield from FAMILIES
    yield from plugins.loaded("family").values()


def size_named(name: str) -> tuple[Family, Size] | None:
    """The family and published size of a preset or bare family name, None if there is none."""
    return next(((f, f.sizes[name]) for f in families() if name in f.sizes), None)


def family_of(config: Any) -> Family | None:
    """The family of a Hugging Face configuration, None where it is not known."""
    return next((family for family in families() if family.model_type == config.model_type), None)


def is_builtin(name: str) -> bool:
    return any(name == family.name or name in family.sizes for family in FAMILIES)


def check_plugin(name: str, thing: Any) -> Family:
    """A Family whose names and model type are not those of a built-in one."""
    if not isinstance(thing, Family):
        raise StatetraceError(f"it is {type(thing).__name__!r}, not a Family")
    if thing.name != name or name not in thing.sizes:
        raise StatetraceError(
            f"its name is {thing.name!r} and its sizes are {', '.join(thing.sizes)}; the name "
            f"must be {name!r} and must be one of the sizes"
        )
    for family in FAMILIES:
        shared = [size for size in thing.sizes if size in family.sizes]
        if thing.model_type == family.model_type or shared:
            what = f"sizes {', '.join(shared)}" if shared else f"model type {thing.model_type!r}"
            raise StatetraceError(f"its {what} are those of the built-in family {family.name!r}")
    if not (isinstance(thing.anatomy, type) and issubclass(thing.anatomy, Anatomy)):
        raise StatetraceError(f"its anatomy {thing.anatomy!r} is not a subclass of Anatomy")
    return replace(thing, fields=plugins.guarded("family", name, thing.fields))


def anatomy_class(config: Any) -> type[Anatomy]:
    family = family_of(config)
    if family is not None and family.anatomy.reads(config):
        return family.anatomy
    return GenericAnatomy


def anatomy(model: Any) -> Anatomy:
    """The map of any Hugging Face causal language model."""
    return anatomy_class(model.config)(model)
