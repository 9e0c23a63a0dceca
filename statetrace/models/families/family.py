"""A model family: its published sizes, its configuration and its anatomy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statetrace.models.anatomy import Anatomy


@dataclass(frozen=True)
class Size:
    """One published size.

    Attributes:
        positions: the published number of positions.
        mlp_width: width of the hidden MLP layer; None for the family's own rule.
        kv_heads: key and value heads where they are fewer than the query heads.
        head_width: width of a head where it is not its share of the width.
        options: further configuration fields (transformers' names) that do not depend on the size.
    """

    layers: int
    width: int
    heads: int
    positions: int
    mlp_width: int | None = None
    kv_heads: int | None = None
    head_width: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def resized(self, layers: int | None, width: int | None, heads: int | None) -> Size:
        """This size with some numbers overridden. A new width or number of heads also drops the
        published MLP width, key-value grouping and head width, which belong to the old ones."""
        new = {"layers": layers, "width": width, "heads": heads}
        changes: dict[str, Any] = {name: n for name, n in new.items() if n is not None}
        if changes.keys() & {"width", "heads"}:
            changes |= dict.fromkeys(("mlp_width", "kv_heads", "head_width"))
        return replace(self, **changes)


@dataclass(frozen=True)
class Family:
    """One model family; a file in this folder defines one as FAMILY, a plug-in registers one.

    Attributes:
        model_type: `config.model_type` of its Hugging Face models, the key of the registry.
        sizes: published sizes by name. The family's bare name is one of them.
        fields: (size, positions) -> the configuration fields, in transformers' names.
        dropout_fields: the configuration fields that hold the dropout; none where it has none.
        anatomy: where the parts of a model of this family are.
        dropout: the published one.
        head_width_multiple: the width of a head must be a multiple of this.
        attends: False for a recurrent family, which has no heads to choose a number of.
    """

    name: str
    model_type: str
    sizes: Mapping[str, Size]
    fields: Callable[[Size, int], dict[str, Any]]
    dropout_fields: tuple[str, ...]
    anatomy: type[Anatomy]
    dropout: float = 0.0
    head_width_multiple: int = 1
    attends: bool = True

    def config(self, size: Size, vocab_size: int, positions: int, dropout: float) -> Any:
        """The Hugging Face configuration. No token has a special meaning: the published ids of
        bos and eos would point at a group element, or outside the task's vocabulary."""
        import transformers

        fields: dict[str, Any] = self.fields(size, positions)
        fields.update(dict.fromkeys(self.dropout_fields, dropout))
        return transformers.AutoConfig.for_model(
            self.model_type,
            **fields,
            vocab_size=vocab_size,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            use_cache=False,  # sequences are read whole, so a cache has no use
        )
