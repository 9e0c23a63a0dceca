"""A model with lens results: results/NAME, results/zoo/NAME or results/STUDY/lenses/CELL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from reproduction.tables import Row, Tables

AA, PAA = "associative", "parity-associative"
LENSES = ("patching", "probing", "geometry", "attention", "generalization", "dynamics", "depth")
NAMES = {"gpt2": "GPT-2", "pythia-160m": "Pythia-160M", "pythia": "Pythia", "mamba": "Mamba"}
PAPER_LENGTH = 100


@dataclass(frozen=True)
class LensModel:
    """One model with lens results: results/`folder`."""

    tables: Tables
    folder: str

    @cached_property
    def recipe(self) -> Row:
        study, _, cell = self.folder.partition("/lenses/")
        file = f"{study}/runs/{cell}.json" if cell else f"{self.folder}/run.json"
        recipe = self.tables.json(file).get("recipe")
        return recipe if isinstance(recipe, dict) else {}

    def table(self, lens: str) -> list[Row]:
        return self.tables.csv(f"{self.folder}/{lens}.csv")

    def about(self, lens: str) -> Row:
        """Settings, summary and notes of a lens."""
        return dict(self.tables.json(f"{self.folder}/{lens}.json"))

    def summary(self, lens: str) -> Row:
        return dict(self.about(lens)["summary"])

    @property
    def arrays(self) -> Row:
        """Maps, trees and points that figures draw."""
        return dict(self.tables.json(f"{self.folder}/drawn.json"))

    @cached_property
    def study_row(self) -> Row:
        """A study's model in its study's table; {} for others."""
        study, _, cell = self.folder.partition("/lenses/")
        rows = self.tables.csv(f"{study}/results.csv") if cell else []
        return next((row for row in rows if row["cell"] == cell), {})

    @cached_property
    def step(self) -> int | None:
        steps = [self.study_row.get("step")]
        for lens in LENSES:
            if self.tables.exists(f"{self.folder}/{lens}.json"):
                steps.append(self.about(lens).get("subject", {}).get("step"))
        return next((int(step) for step in steps if step is not None), None)

    @cached_property
    def analysed_length(self) -> int | None:
        """The length of the analyzed sequences; shorter than in training while a model learns."""
        for lens in ("patching", "geometry", "attention"):
            if self.tables.exists(f"{self.folder}/{lens}.json"):
                length = self.summary(lens).get("length")
                if length is not None:
                    return int(length)
        return None

    @property
    def mechanism(self) -> str:
        """The verdict in the study's table, or the one that the folder is named after."""
        if self.study_row:
            return str(self.study_row["verdict"])
        name = self.folder.removesuffix("-wide").removesuffix("-loose")
        if name in ("zoo/s3-no-marker", "zoo/s3-rotary"):
            return PAA
        if name.endswith(f"-{PAA}"):
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
