"""Appendix B: suffixes and single actions deleted, early and late; and parity under patches."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from reproduction.claims.patching import DOUBLING, GROWS
from reproduction.measures import heat_maps as maps
from reproduction.measures import patching as lens
from reproduction.model_selection import A, P
from reproduction.rules import AtLeast, AtMost

KINDS = (("aa", A, ZOO_A), ("paa", P, ZOO_P))

WINDOWS = (
    "By medians, the place of a single action counts in the first layers alone. Deeper, what a "
    "layer has of an action may lie in several places, so that deleting one costs less than half "
    "of the answer."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="aa-suffix",
        where="Figure 8C, App. B",
        says=(
            "In AA models exponentially longer suffixes can be deleted: nearly half of the "
            "sequence one layer before the last"
        ),
        paper="“exponentially longer”",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(A, "suffix", "all", maps.ignored_suffix, "share"),
        rule=AtLeast(0.4),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "Judged by medians: deletion divides by how clear an answer was, and single pairs "
            "rule the means. By substitution, what the last but one layer still needs of the "
            "first action lies in the last few positions, so deleting just those loses it: this "
            "model takes its short steps last, where the paper's algorithm takes them first."
        ),
        note_at_size=(
            "Over the deeper half the suffixes do grow with every layer, the last two times more "
            "than doubling (picture). One layer before the last they stop short of the bound, "
            "since the last step is longer than a doubling: by substitution, too, more than half "
            "of the prefix has to be restored there ([aa-patching](#aa-patching))."
        ),
        picture="deletions",
    ),
    Claim(
        name="paa-suffix",
        where="Figure 8C, App. B",
        says=(
            "In PAA models exponentially longer suffixes can be deleted: nearly half of the "
            "sequence one layer before the last"
        ),
        paper="“exponentially longer”",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(P, "suffix", "all", maps.ignored_suffix, "share"),
        rule=AtLeast(0.4),
        ours=True,
        stand_in=ZOO_P,
        note=(
            "Judged by medians over pairs, which one layer before the last are not far below the "
            "bound of one half."
        ),
        noted="",
        note_at_size=(
            "In its deeper half this model's front moves on by about as many actions in every "
            "layer ([bend-parity-associative](#bend-parity-associative)), not by more and more, so "
            "its last step is short, and what can be deleted is what lies behind the front. Its "
            "reach still grew when it was looked at. The two others of this size, on shorter "
            "sequences, do not show suffixes that grow either: GPT-2 keeps about half of the "
            "answer in its deeper layers whatever is deleted, and a second Pythia goes from next "
            "to nothing to everything in one layer."
        ),
        picture="deletions",
    ),
    *(
        Claim(
            name=f"{kind}-window",
            where="Figure 8D, App. B",
            says=(
                f"In {kind.upper()} models the single actions that count get sparser layer by "
                "layer: layers in which some do, and fewer than before"
            ),
            paper="“the spacing of important tokens gets sparser as we go down the layers”",
            recipe=f"{PAPER}/figure-8-patching-kinds.toml",
            measure=lens.of_grid(model, "window", "all", maps.thinning_layers, "layers"),
            rule=AtLeast(3),
            ours=True,
            stand_in=recipe,
            note=WINDOWS,
            general=True,
            note_at_size=further and f"{WINDOWS} {further}",
            picture="deletions",
        )
        for kind, model, recipe, further in (
            ("aa", A, ZOO_A, ""),
            (
                "paa",
                P,
                ZOO_P,
                "So it is in a second Pythia; in GPT-2, earlier in training and on short "
                "sequences, they get sparser over several layers, as the paper says.",
            ),
        )
    ),
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
