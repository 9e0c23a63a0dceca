"""A model with lens results: the run folder results/NAME, results/zoo/NAME or
results/STUDY/cells/CELL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from reproduction.tables import Missing, Row, Tables
from statetrace.groups import Group
from statetrace.lenses.result import LensResult
from statetrace.reports.run_results import FolderResults, newest

AA, PAA = "associative", "parity-associative"
MECHANISMS = {"AA": AA, "PAA": PAA}
NAMES = {"gpt2": "GPT-2", "pythia-160m": "Pythia-160M", "pythia": "Pythia", "mamba": "Mamba"}
PAPER_LENGTH = 100
VARIANTS = ("-wide", "-loose", "-released", "-switch")
"""Endings of folders that analyze a model once more, with other settings or at several steps."""
LONG_RUN = "pythia-160m-long-associative"
SAME_RUN = {
    "pythia-160m-20k-parity-associative": LONG_RUN,
    "pythia-160m-20k-parity-associative-released": LONG_RUN,
    "pythia-160m-switch": LONG_RUN,
}
"""Folders of one run, equal in every logged loss, whose recipes save checkpoints at other steps."""


@dataclass(frozen=True)
class LensModel:
    """One model with lens results: results/`folder`."""

    tables: Tables
    folder: str

    @cached_property
    def results(self) -> FolderResults:
        """What figures read."""
        return newest(self.tables.folder / self.folder)

    @property
    def group(self) -> Group:
        return self.results.group

    @cached_property
    def recipe(self) -> Row:
        recipe = self.tables.json(f"{self.folder}/run.json").get("recipe")
        return recipe if isinstance(recipe, dict) else {}

    def has(self, lens: str) -> bool:
        return self.results.lens(lens) is not None

    def lens(self, name: str) -> LensResult:
        result = self.results.lens(name)
        if result is None:
            raise Missing(f"'results/{self.folder}' has no {name} results")
        return result

    def table(self, lens: str) -> list[Row]:
        return self.lens(lens).rows()

    def summary(self, lens: str) -> Row:
        return dict(self.lens(lens).summary)

    @cached_property
    def study_row(self) -> Row:
        """A study's model in its study's table; {} for others."""
        study, _, cell = self.folder.partition("/cells/")
        rows = self.tables.study_rows(study) if cell else []
        return next((row for row in rows if row["cell"] == cell), {})

    @property
    def step(self) -> int | None:
        return self.results.step

    @cached_property
    def analyzed_length(self) -> int | None:
        """The length of the analyzed sequences; shorter than in training while a model learns."""
        for lens in ("patching", "geometry", "attention"):
            length = self.summary(lens).get("length") if self.has(lens) else None
            if length is not None:
                return int(length)
        return None

    @property
    def mechanism(self) -> str:
        """The verdict in the study's table, or the one that the folder is named after."""
        if self.study_row:
            return str(self.study_row["verdict"])
        name = self.folder
        for variant in VARIANTS:
            name = name.removesuffix(variant)
        if name in ("zoo/s3-no-marker", "zoo/s3-rotary") or name.endswith(f"-{PAA}"):
            return PAA
        return AA if name.endswith(f"-{AA}") else ""

    @property
    def at_paper_size(self) -> bool:
        if not self.recipe:
            return False
        model = self.recipe["model"]
        published = model["layers"] is None and model["width"] is None
        return bool(published and self.recipe["task"]["length"] >= PAPER_LENGTH)

    @property
    def run(self) -> str:
        """Equal for folders that show one run at several steps."""
        return json.dumps(self.recipe) if self.recipe else self.folder

    @property
    def taught(self) -> str:
        return "+".join(s["objective"] for s in self.recipe.get("stage") or ())

    @property
    def name(self) -> str:
        """For the page: "GPT-2, step 20,000" or "GPT-2 after topic-1, seed 0"."""
        if not self.recipe:
            return self.folder.replace("zoo/", "zoo:")
        model = self.recipe["model"]["name"]
        if not self.step:
            return self.folder
        name, row = NAMES.get(model, model), self.study_row
        if row:
            return f"{name} after {row.get('regime') or 'nothing'}, seed {row['seed']}"
        return f"{name}, step {self.step:,}"
