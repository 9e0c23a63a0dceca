"""Figure 6, further: the loss at which models end."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, SAME_START, SCRATCH
from reproduction.measures import seeds
from reproduction.rules import AtMost

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="aa-loss",
        where="Figure 6",
        says="AA models end at a lower loss than PAA models",
        paper="lower",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=seeds.loss_gap("tiny-split"),
        at_size=seeds.loss_gap(SCRATCH),
        rule=AtMost(0, least=12),
        picture="losses",
        stand_in="recipes/studies/tiny-split.toml",
        note=SAME_START,
        noted="",
    ),
)
