"""What single lenses say of many models: the evidence behind verdicts, model by model.

    results/STUDY/evidence.csv                 of cells with a full verdict (studies/table.py)
    results/calibration/trained.jsonl, runs/   of the trained models of the verdict's calibration

Cost: each file is read once. Needs no torch.
Caveat: `mechanism` rests on the same lenses, though not on the training log: a row that compares a
lens with it says less than one that compares two lenses.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from reproduction.measured import Measure, Measured, share_of
from reproduction.measures.heads import NAMED, Extreme
from reproduction.measures.studies import AA, FULL, PAA, judged, sizes
from reproduction.results import Results, Row, study_file
from statetrace.mechanisms.distances import HEAD

STUDIES = ("scratch", "small", "small-regimes", "tiny", "tiny-regimes", "tiny-control",
           "tiny-orders", "tiny-split", "tiny-split-regimes", "tiny-pythia")  # fmt: skip
"""Studies of S3 whose models are counted as soon as their evidence was kept."""

TRAINED = "results/calibration/trained.jsonl"
LEAD = 0.1
"""Parity and state are learned together where it leads by less, of what it could."""

TIED = 0.005
"""Distances no further apart than this are equal, as far as lenses can tell."""


@dataclass(frozen=True)
class Model:
    """One model as the lenses see it.

    Attributes:
        mechanism: its verdict, or its label in the calibration.
        patching, probing: algorithm -> distance.
        surplus: points by which the best parity head scores more than by chance; None where that
            was not kept.
        lost: points of parity lost with that head; None where that was not kept.
        lead: how far parity ran ahead of the state in training, of what it could; or None.
        taught: whether it was taught parity, before the state or beside it.
        about: its size, as a row of a study's table.
        source: the file.
        recipe: what it was trained by, all of it.
    """

    mechanism: str
    patching: dict[str, float]
    probing: dict[str, float]
    surplus: float | None
    lost: float | None
    lead: float | None
    taught: bool
    about: Row
    source: str
    recipe: str

    @property
    def tied(self) -> bool:
        """Whether one of the two lenses finds it as near to either mechanism."""
        return any(abs(of[AA] - of[PAA]) < TIED for of in (self.patching, self.probing))

    @property
    def logged(self) -> bool:
        """Whether its training says something: parity leads anyway where it was taught."""
        return self.lead is not None and not self.taught

    @property
    def together(self) -> bool:
        """Whether parity and state were learned together."""
        return self.lead is not None and self.lead < LEAD


def models(found: Results) -> list[Model]:
    """All there are, of runs that are kept; a model that is in several studies once."""
    there = [*_calibrated(found), *(one for name in STUDIES for one in _studied(found, name))]
    return list({one.recipe: one for one in reversed(there)}.values())[::-1]


def share(
    test: Callable[[Model], bool],
    among: Callable[[Model], bool] = lambda one: True,
    mechanism: str | None = None,
) -> Measure:
    """Of the models (of a mechanism, and `among` those), the share that pass a test."""

    def measure(found: Results) -> Measured:
        rows = [one for one in models(found) if mechanism in (None, one.mechanism) and among(one)]
        sources = tuple(dict.fromkeys(one.source for one in rows))
        size = sizes([one.about for one in rows]) if rows else ""
        return share_of(sum(map(test, rows)), len(rows), "models", sources, size=size)

    return measure


def lenses_agree(found: Results) -> Measured:
    """Of models of the two mechanisms, those of which patching and probes, each alone, find the
    same nearer; without those of which one of the two cannot tell. Of the others: with which the
    training log sides."""
    every = [one for one in models(found) if one.mechanism in (AA, PAA)]
    rows = [one for one in every if not one.tied]
    apart = [one for one in rows if nearest(one.patching) != nearest(one.probing)]
    told = [one for one in apart if one.logged]
    sides = sum((AA if one.together else PAA) == nearest(one.patching) for one in told)
    words = (
        f"{len(every) - len(rows)} more of {len(every)} are as near to either by one lens (to "
        f"{TIED:g}); of those that disagree the training log sides with patching in {sides} of "
        f"{len(told)}"
    )
    sources = tuple(dict.fromkeys(one.source for one in rows))
    size = sizes([one.about for one in rows]) if rows else ""
    return share_of(
        len(rows) - len(apart), len(rows), "models", sources, words if every else "", size
    )


def head_surplus(mechanism: str, extreme: Extreme) -> Measure:
    """Points by which the best parity head scores more than by chance, of all models of a mechanism
    in the one in which that is least or most."""

    def measure(found: Results) -> Measured:
        rows = [one for one in models(found) if one.mechanism == mechanism]
        rows = [one for one in rows if one.surplus is not None]
        if not rows:
            return Measured(None)
        points = [float(one.surplus) for one in rows if one.surplus is not None]
        above, clearly = (sum(point > bound for point in points) for bound in (0, HEAD))
        words = (
            f"{NAMED[extreme]}; above chance in {above} of {len(rows)}, by {HEAD:.0f} points, as "
            f"the verdict asks, in {clearly}"
        )
        return Measured(float(extreme(points)), len(rows), "models", unit="points", words=words,
                        sources=tuple(dict.fromkeys(one.source for one in rows)),
                        size=sizes([one.about for one in rows]))  # fmt: skip

    return measure


def nearest(distances: dict[str, float]) -> str:
    """Which of the two mechanisms a lens alone finds nearer."""
    return AA if distances[AA] <= distances[PAA] else PAA


def _studied(found: Results, study: str) -> list[Model]:
    file = f"results/{study}/evidence.csv"
    if not (found.exists(file) and found.exists(study_file(study))):
        return []
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for row in found.table(file):
        numbers.setdefault(row["cell"], {}).setdefault(row["lens"], {})[row["of"]] = row["value"]
    return [
        Model(
            row["verdict"],
            lenses["patching"],
            lenses["probing"],
            head["score"] - head["by chance"] if head else None,
            head["parity lost"] if head else None,
            lenses.get("dynamics", {}).get("parity lead"),
            taught(run),
            row,
            file,
            json.dumps(run["recipe"]),
        )
        for row in judged(found, (study,), FULL)
        if (lenses := numbers.get(row["cell"])) is not None
        for head in (lenses.get("attention"),)
        for run in (found.json(f"results/{study}/runs/{row['cell']}.json"),)
    ]


def _calibrated(found: Results) -> list[Model]:
    """Those of which the run is kept; others were not trained by this package."""
    made = []
    for row in found.lines(TRAINED) if found.exists(TRAINED) else ():
        run = f"results/calibration/runs/{row['name']}.json"
        lenses = row["measures"]
        if not lenses or not found.exists(run):
            continue
        info = found.json(run)
        task, model = (info["recipe"][section] for section in ("task", "model"))
        about = {"model": model["name"], "layers": model["layers"], "width": model["width"],
                 "group": task["group"], "length": task["length"], "step": None}  # fmt: skip
        seen = (row["label"], lenses["patching"], lenses["probing"], None, None)
        recipe = json.dumps(info["recipe"])
        made.append(Model(*seen, lenses.get("dynamics"), taught(info), about, TRAINED, recipe))
    return made


def taught(run: Row) -> bool:
    """Whether a run was taught parity, before the state or beside it."""
    stages = run["recipe"].get("stage") or ()
    return any(one.get("objective") == "parity" or one.get("auxiliary") for one in stages)
