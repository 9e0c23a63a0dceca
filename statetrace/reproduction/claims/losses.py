"""Figure 6, further: the loss at which models end."""

from __future__ import annotations

from statetrace.reproduction import of_seeds as seeds
from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims.names import PAPER, SCRATCH
from statetrace.reproduction.rules import AtMost

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="aa-loss",
        where="Figure 6",
        says="AA models end at a lower loss than PAA models",
        paper="lower",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=seeds.loss_gap("tiny-pythia"),
        at_size=seeds.loss_gap(SCRATCH),
        rule=AtMost(0, least=12),
        picture="losses",
        stand_in="recipes/studies/tiny-pythia.toml",
        note=(
            "Most of these AA models come after the second topic model, most PAA models after "
            "others, and none of the former had learned the whole task at the end: the row cannot "
            "tell mechanism from what was taught before. Losses of other studies were not kept."
        ),
        noted="",
    ),
)
