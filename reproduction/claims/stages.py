"""Appendix H: classifiers beside the state, and sequences that grow."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.curricula import LENGTHS, NO_EFFECT, PAIRS, TINY_PYTHIA, either
from reproduction.claims.names import PAPER, REGIMES
from reproduction.measured import first_of
from reproduction.measures import seeds
from reproduction.measures import studies as study
from reproduction.measures.regime_effects import moved
from reproduction.measures.studies import AA, PAA
from reproduction.results import Row
from reproduction.rules import NOT_REACHED, AtLeast, Inside

RIGHT = 0.98
"""As for cutoffs."""

COUNTS = (
    "Very small models with such a classifier know parity in their first layer, and most of them "
    "then count the rest in the second, at every length they were taught: the parallel algorithm "
    "of App. A. One of them is zoo:s3-parallel; the depth lens tells it from a scan. Wider GPT-2 "
    "on longer sequences do not, with a classifier of parity "
    "([auxiliary-parity](#auxiliary-parity)); those with this one were trained, read as PAA by "
    "their cutoffs midway, and were not looked into."
)


def _knows(end: Row, mechanism: str) -> bool:
    return bool(min(end["state"], end["parity"]) >= RIGHT)


def _goes_on_if_associative(end: Row, mechanism: str) -> bool:
    return bool((end["next_state"] >= RIGHT) == (mechanism == AA))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="length-effect",
        where="App. H",
        says=(
            "Lengths that grow in stages change nothing: how much more common AA is after them "
            "than from scratch"
        ),
        paper="does not reliably affect it",
        recipe=LENGTHS,
        measure=moved("length", *PAIRS),
        rule=NO_EFFECT,
        ours=True,
        stand_in=REGIMES,
        picture="start",
    ),
    Claim(
        name="auxiliary-parity",
        where="App. H",
        says="A parity classifier on an early layer leads to PAA",
        paper="100% PAA",
        recipe="recipes/studies/auxiliary.toml",
        measure=either(PAA, "auxiliary-parity"),
        rule=Inside(1),
        stand_in=REGIMES,
        note=COUNTS,
        picture="regimes",
    ),
    Claim(
        name="auxiliary-action",
        where="App. H",
        says="So does a classifier of (parity, action)",
        paper="100% PAA",
        recipe="recipes/studies/auxiliary.toml",
        measure=either(PAA, "auxiliary-action"),
        rule=Inside(1),
        stand_in=REGIMES,
        note=COUNTS,
        picture="regimes",
    ),
    Claim(
        name="auxiliary-further",
        where="App. H",
        says=(
            "With the classifier of (parity, action) models generalise better than with that of "
            "parity: how many lengths further they are right"
        ),
        paper="better",
        recipe="recipes/studies/auxiliary.toml",
        measure=first_of(
            seeds.cutoff_gap("tiny-regimes", ("auxiliary-action", "auxiliary-parity")),
            seeds.cutoff_gap("small-regimes", ("auxiliary-action", "auxiliary-parity")),
        ),
        rule=AtLeast(0, least=8),
        stand_in=REGIMES,
        note=(
            "At width 256 the two were trained as well, and the lenses did not come to look at the "
            "second."
        ),
        noted="",
    ),
    Claim(
        name="length-curriculum",
        where="App. H",
        says="Growing lengths have no effect: 2 of 5 GPT-2 learn AA",
        paper="40% AA",
        recipe=f"{PAPER}/figure-19-length-curriculum.toml",
        measure=either(AA, "length"),
        rule=Inside(0.4),
        stand_in=REGIMES,
        picture="regimes",
        note=(
            "So few models cannot tell two of five from none; [length-effect](#length-effect) "
            "counts those of other studies as well."
        ),
        noted=NOT_REACHED,
    ),
    Claim(
        name="length-25",
        where="Figure 19, App. H",
        says="After 25 tokens all 5 models know state and parity perfectly at that length",
        paper="100%",
        recipe=f"{PAPER}/figure-19-length-curriculum.toml",
        measure=study.after_stage("tiny-pythia", _knows),
        rule=Inside(1),
        stand_in=TINY_PYTHIA,
        picture="stages",
    ),
    Claim(
        name="length-50",
        where="Figure 19, App. H",
        says="From length 25 AA models generalise to 50 and PAA models do not",
        paper="all 5, of which 2 AA",
        recipe=f"{PAPER}/figure-19-length-curriculum.toml",
        measure=study.after_stage("tiny-pythia", _goes_on_if_associative),
        rule=Inside(1),
        stand_in=TINY_PYTHIA,
        note=(
            "At twice the length these small models know nothing, neither state nor parity, "
            "whatever they become; the one that turns out AA is the exception here. Their lengths "
            "are a quarter of the paper's."
        ),
        picture="stages",
    ),
)
