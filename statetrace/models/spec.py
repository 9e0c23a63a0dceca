"""Which model: a name and, if wanted, another size, dropout or a pretrained checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.errors import StatetraceError
from statetrace.models.families import Family, Size, families, size_named


@dataclass(frozen=True)
class ModelSpec:
    """What to build, refused at construction if it cannot be built.

    Attributes are documented one by one below; see `statetrace.models.build`.
    """

    name: str
    """A published size (gpt2-medium, pythia-160m, ...) or a family (gpt2, pythia, llama, qwen,
    gemma, mamba). With `pretrained` it is only a label, which may be the checkpoint's own name:
    the checkpoint says what the model is."""

    layers: int | None = None
    """Number of blocks, instead of the published one."""

    width: int | None = None
    """Width of the residual stream, instead of the published one."""

    heads: int | None = None
    """Attention heads per block, instead of the published one."""

    dropout: float | None = None
    """Dropout everywhere the family has it; None for the published one (GPT-2 0.1, others 0)."""

    init_std: float | None = None
    """Standard deviation of the initial weights; None for the family's (0.02, Mamba 0.1)."""

    pretrained: str | None = None
    """Start from these weights: a folder with config.json and model.safetensors, or a hub id."""

    def __post_init__(self) -> None:
        sizes = {"layers": self.layers, "width": self.width, "heads": self.heads}
        given: dict[str, float] = {k: value for k, value in sizes.items() if value is not None}
        for field, value in given.items():
            if type(value) is not int or value < 1:
                raise StatetraceError(f"{field} = {value!r} is not a whole number from 1 up.")
        self._check_dropout()
        if self.init_std is not None:
            if not 0 < self.init_std < 10:
                raise StatetraceError(f"init_std = {self.init_std!r} is not between 0 and 10.")
            given["init_std"] = self.init_std
        if self.pretrained is not None:
            if not isinstance(self.pretrained, str) or not self.pretrained.strip():
                raise StatetraceError(
                    f"pretrained = {self.pretrained!r} is neither a folder nor a hub id such as "
                    "'EleutherAI/pythia-160m'."
                )
            if given:
                settings = ", ".join(f"{field} = {value}" for field, value in given.items())
                raise StatetraceError(
                    f"{settings} cannot be chosen with pretrained = {self.pretrained!r}: the "
                    "checkpoint has its own size; leave out one or the other."
                )
            if self.name != self.pretrained and size_named(self.name) is None:
                raise StatetraceError(
                    f"unknown model {self.name!r}: leave it out, as pretrained = "
                    f"{self.pretrained!r} says what the model is."
                )
            return
        family, size = self._published()  # refuses an unknown name
        self._check_family(family)
        size = size.resized(self.layers, self.width, self.heads)
        if size.width % size.heads:
            fits = [n for n in range(1, 65) if size.width % n == 0]
            raise StatetraceError(
                f"width {size.width} cannot be split among {size.heads} heads: use a multiple of "
                f"{size.heads} as width, or {_or(fits)} heads."
            )
        if size.width // size.heads % family.head_width_multiple:
            raise StatetraceError(
                f"width {size.width} with {size.heads} heads makes heads of width "
                f"{size.width // size.heads}: {family.name} rotates them and needs a multiple of "
                f"{family.head_width_multiple}."
            )

    @property
    def family(self) -> Family:
        """The named family; refused where `pretrained` says what the model is."""
        self._check_from_scratch()
        return self._published()[0]

    @property
    def size(self) -> Size:
        """The published size with the overrides applied."""
        self._check_from_scratch()
        return self._published()[1].resized(self.layers, self.width, self.heads)

    def _published(self) -> tuple[Family, Size]:
        found = size_named(self.name) if isinstance(self.name, str) else None
        if found is None:
            raise StatetraceError(
                f"unknown model {self.name!r}: use one of {', '.join(model_names())}, or "
                "pretrained with a folder or hub id for any other Hugging Face causal LM."
            )
        return found

    def _check_dropout(self) -> None:
        if self.dropout is None:
            return
        number = isinstance(self.dropout, int | float) and not isinstance(self.dropout, bool)
        if not number or not 0 <= self.dropout < 1:
            raise StatetraceError(f"dropout = {self.dropout!r} is not a number from 0 up to 1.")

    def _check_family(self, family: Family) -> None:
        """Refuse what a family has none of."""
        if self.heads is not None and not family.attends:
            raise StatetraceError(
                f"heads = {self.heads} cannot be chosen: {family.name} is recurrent and has none; "
                "leave it out."
            )
        if self.dropout and not family.dropout_fields:
            raise StatetraceError(
                f"dropout = {self.dropout} cannot be chosen: {family.name} has none; leave it out."
            )

    def _check_from_scratch(self) -> None:
        if self.pretrained is not None:
            raise StatetraceError(
                f"the size of {self.pretrained!r} is in its checkpoint: build it to see."
            )


def model_names() -> list[str]:
    """Every name a ModelSpec accepts."""
    return [name for family in families() for name in family.sizes]


def _or(numbers: list[int]) -> str:
    first = ", ".join(map(str, numbers[:-1]))
    return f"{first} or {numbers[-1]}" if first else str(numbers[-1])
