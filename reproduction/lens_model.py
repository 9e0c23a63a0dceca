"""A model with lens results: results/NAME."""

from __future__ import annotations

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
        recipe = self.tables.json(f"{self.folder}/run.json").get("recipe")
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
    def step(self) -> int | None:
        for lens in LENSES:
            if self.tables.exists(f"{self.folder}/{lens}.json"):
                step = self.about(lens).get("subject", {}).get("step")
                if step is not None:
                    return int(step)
        return None

    @cached_property
    def analysed_length(self) -> int | None:
        """The length of the analysed sequences; shorter than in training while a model learns."""
        for lens in ("patching", "geometry", "attention"):
            if self.tables.exists(f"{self.folder}/{lens}.json"):
                length = self.summary(lens).get("length")
                if length is not None:
                    return int(length)
        return None

    @property
    def mechanism(self) -> str:
        """The verdict that the folder is named after."""
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
        if not self.recipe:
            return self.folder
        return f"{self.recipe['model']['name']} {self.recipe['training']['seed']} {self.taught}"

    @property
    def taught(self) -> str:
        return "+".join(s["objective"] for s in self.recipe.get("stage") or ())

    @property
    def name(self) -> str:
        """For the page: "GPT-2, step 20,000"."""
        if not self.recipe:
            return self.folder.replace("zoo/", "zoo:")
        model = self.recipe["model"]["name"]
        return f"{NAMES.get(model, model)}, step {self.step:,}" if self.step else self.folder
