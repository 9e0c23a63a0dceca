"""Which model: a name, and optionally another size, dropout or a pretrained checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.config.checks import need
from statetrace.config.settings import ModelSettings
from statetrace.errors import StatetraceError
from statetrace.models.families import Family, Size, families, size_named


@dataclass(frozen=True)
class ModelSpec(ModelSettings):
    """What `statetrace.models.build` builds: a recipe's settings, checked against the families.

    With `pretrained` the name is only a label, possibly the checkpoint's own name, and the
    checkpoint determines the model.
    """

    def __post_init__(self) -> None:
        sizes = {"layers": self.layers, "width": self.width, "heads": self.heads}
        chosen: dict[str, float] = {k: value for k, value in sizes.items() if value is not None}
        for field, value in chosen.items():
            valid = type(value) is int and value >= 1
            need(valid, f"{field} = {value!r} must be a whole number, 1 or more")
        if (share := self.dropout) is not None:
            number = isinstance(share, int | float) and not isinstance(share, bool)
            valid = number and 0 <= share < 1
            need(valid, f"dropout = {share!r} must be at least 0 and below 1")
        if self.init_std is not None:
            valid = 0 < self.init_std < 10
            need(valid, f"init_std = {self.init_std!r} must be between 0 and 10")
            chosen["init_std"] = self.init_std
        if self.pretrained is not None:
            self._check_pretrained(self.pretrained, chosen)
            return
        family, size = self._published()  # refuses an unknown name
        self._check_family(family)
        size = size.resized(self.layers, self.width, self.heads)
        fits = [n for n in range(1, 65) if size.width % n == 0]
        need(
            size.width % size.heads == 0,
            f"width {size.width} cannot be split among {size.heads} heads; use a multiple of "
            f"{size.heads} as width, or {_or(fits)} heads",
        )
        each = size.width // size.heads
        need(
            each % family.head_width_multiple == 0,
            f"width {size.width} with {size.heads} heads gives heads of width {each}; "
            f"{family.name} needs a multiple of {family.head_width_multiple}",
        )

    @property
    def family(self) -> Family:
        """The named family; refused with `pretrained`."""
        return self._published()[0]

    @property
    def size(self) -> Size:
        """The published size with the overrides applied; refused with `pretrained`."""
        return self._published()[1].resized(self.layers, self.width, self.heads)

    def _published(self) -> tuple[Family, Size]:
        need(
            self.pretrained is None,
            f"the size of {self.pretrained!r} is in its checkpoint; build the model first",
        )
        published = size_named(self.name) if isinstance(self.name, str) else None
        if published is None:
            raise StatetraceError(
                f"unknown model {self.name!r}; use one of {', '.join(model_names())}, or "
                "pretrained with a folder or hub id for any other causal language model"
            )
        return published

    def _check_pretrained(self, source: str, chosen: dict[str, float]) -> None:
        """Refuse what is not a name, and settings that the checkpoint has itself."""
        need(
            isinstance(source, str) and bool(source.strip()),
            f"pretrained = {source!r} is neither a folder nor a hub id such as "
            "'EleutherAI/pythia-160m'",
        )
        settings = ", ".join(f"{field} = {value}" for field, value in chosen.items())
        need(
            not chosen,
            f"{settings} cannot be chosen with pretrained = {source!r}: the checkpoint has its own "
            "size; leave out one or the other",
        )
        need(
            self.name == source or size_named(self.name) is not None,
            f"unknown model {self.name!r}; leave it out, since pretrained = {source!r} determines "
            "the model",
        )

    def _check_family(self, family: Family) -> None:
        """Refuse settings that a family does not have."""
        need(
            self.heads is None or family.attends,
            f"heads = {self.heads} cannot be chosen: {family.name} is recurrent and has none; "
            "leave it out",
        )
        need(
            not self.dropout or bool(family.dropout_fields),
            f"dropout = {self.dropout} cannot be chosen: {family.name} has none; leave it out",
        )


def model_names() -> list[str]:
    """Every name a ModelSpec accepts."""
    return [name for family in families() for name in family.sizes]


def _or(numbers: list[int]) -> str:
    first = ", ".join(map(str, numbers[:-1]))
    return f"{first} or {numbers[-1]}" if first else str(numbers[-1])
