"""Which models of results/ a test is about.

A test's `models` table in TOML filters either models with lens results, or rows of the models table
(models_table.py):

    models = { mechanism = "AA", size = "paper" }                lens results, one model per run
    models = { study = ["small", "tiny"], label = "PAA" }        rows; label = the verdict
    models = { size = "paper", label = "AA", by = "patching" }   labelled by patching alone

Other keys are columns: a value, or a list of which one must match. `folder` names single models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reproduction.lens_model import MECHANISMS, VARIANTS, LensModel
from reproduction.models_table import map_label, model_rows
from reproduction.tables import Missing, Row, Tables

LABELS = {"verdict": "verdict", "patching": "patching_label", "cutoffs": "cutoff_verdict"}


@dataclass(frozen=True)
class Selection:
    """All models of results/, to select from."""

    tables: Tables

    @cached_property
    def all_rows(self) -> list[Row]:
        return model_rows(self.tables)

    @cached_property
    def all_models(self) -> dict[str, LensModel]:
        """Models with lens results, by folder."""
        return {name: LensModel(self.tables, name) for name in self.tables.lens_folders()}

    def rows(self, where: Row) -> list[Row]:
        """Rows of models that learned the task and have a verdict, one per run; single models only
        at the paper's size."""
        where = dict(where)
        column = LABELS[where.pop("by", "verdict")]
        label = where.pop("label", None)
        labels = None if label is None else {MECHANISMS.get(x, x) for x in _list(label)}
        if "study" not in where:
            single = ["single"] if where.get("size") == "paper" else []
            where["study"] = [*self.tables.studies(), *single]
        chosen: dict[str, Row] = {}
        for row in self.all_rows:
            if (
                row["state"] == "finished"
                and row["verdict"] not in (None, "unlearned")
                and (labels is None or row[column] in labels)
                and all(row[name] in _list(value) for name, value in where.items())
            ):
                chosen.setdefault(row["run_key"], row)
        return list(chosen.values())

    def lens_models(self, where: Row, lens: str) -> list[LensModel]:
        """Single models with a lens's results, of each run the one trained longest."""
        where = dict(where)
        folders = where.pop("folder", None)
        mechanism = MECHANISMS.get(where.pop("mechanism", ""))
        by_patching = where.pop("by", "verdict") == "patching"
        size, group = where.pop("size", None), where.pop("group", None)
        untaught = where.pop("untaught", False)
        if where:
            raise Missing(f"lens models cannot be selected by {sorted(where)}")
        chosen: dict[str, LensModel] = {}
        for folder, model in self.all_models.items():
            if folder.endswith(VARIANTS) and folder not in _list(folders):
                continue
            if folders is not None and folder not in _list(folders):
                continue
            if not model.has(lens):
                continue
            label = map_label(model) if by_patching else model.mechanism
            if mechanism is not None and label != mechanism:
                continue
            if size is not None and model.at_paper_size != (size == "paper"):
                continue
            if group is not None and not (folder.split("/")[-1]).startswith(f"{group.lower()}-"):
                continue
            if untaught and "parity" in model.taught:
                continue
            best = chosen.get(model.run)
            if best is None or (model.step or 0) > (best.step or 0):
                chosen[model.run] = model
        return sorted(chosen.values(), key=lambda m: (-(m.step or 0), m.folder))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)
