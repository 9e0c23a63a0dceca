"""Appendix B, further: single actions deleted early and late, and parity under patches."""

from __future__ import annotations

from statetrace.reproduction import of_maps as maps
from statetrace.reproduction import of_patching as lens
from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from statetrace.reproduction.claims.patching import DOUBLING, GROWS
from statetrace.reproduction.kept import A, P
from statetrace.reproduction.rules import AtLeast, AtMost

KINDS = (("aa", A, ZOO_A), ("paa", P, ZOO_P))

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="bend-opposite",
        where="Figure 8B, App. B",
        says=f"On opposite-parity pairs, too, AA models show the exponential pattern: {GROWS}",
        paper="“the exponential patching pattern in AA models”",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(A, "prefix", "opposite parity", maps.front_bend),
        rule=DOUBLING,
        ours=True,
        stand_in=ZOO_A,
        picture="patching",
    ),
    *(
        Claim(
            name=f"{kind}-deleted-early",
            where="Figure 8D, App. B",
            says=f"In {kind.upper()} models every single action counts before the first layer",
            paper="“deleting any single token in the early layers is extremely important”",
            recipe=f"{PAPER}/figure-8-patching-kinds.toml",
            measure=lens.alone(model, late=False),
            rule=AtLeast(0.9),
            ours=True,
            stand_in=recipe,
            picture="deletions",
        )
        for kind, model, recipe in KINDS
    ),
    *(
        Claim(
            name=f"{kind}-deleted-late",
            where="Figure 8D, App. B",
            says=f"In {kind.upper()} models no single action counts in the last layers",
            paper="“deleting any single token is unimportant”",
            recipe=f"{PAPER}/figure-8-patching-kinds.toml",
            measure=lens.alone(model, late=True),
            rule=AtMost(0.05),
            ours=True,
            stand_in=recipe,
            picture="deletions",
        )
        for kind, model, recipe in KINDS
    ),
    Claim(
        name="patched-parity",
        where="§4.2, App. B",
        says=(
            "Of PAA models' answers all have the clean parity where a prefix is restored before "
            "parity is known, and the wrong one behind it"
        ),
        paper="“the entire prediction being of the correct parity”, then “of the incorrect parity”",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        note=(
            "The maps compare the clean answer with the corrupted one; what the model thinks of "
            "the other states, which would tell the parity of its answer, is not recorded."
        ),
        noted="",
    ),
)
