"""Appendix E: models that read sentences."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER
from reproduction.measures import text
from reproduction.measures.probing import parity_ahead
from reproduction.measures.theory import told_example
from reproduction.model_selection import TEXT
from reproduction.rules import NOT_REACHED, AtLeast, AtMost

RECIPE = f"{PAPER}/figure-14-natural-language.toml"
TINY = "recipes/studies/tiny-text.toml"
NO_WEIGHTS = "Pretrained weights were not at hand."
DOUBLING = 0.5
"""How far a front must bend (measures/heat_maps.py), half-way from equal steps to doubling."""

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            name=name,
            where="Figure 14, App. E",
            says=f"On sentences a pretrained Pythia {says}",
            paper=paper,
            recipe=RECIPE,
            note=NO_WEIGHTS,
            noted="",
        )
        for name, says, paper in (
            (
                "text-pretrained",
                "shows PAA: parity is read much earlier than the state",
                "parity much earlier, “a signature of the PAA algorithm”",
            ),
            (
                "text-pretrained-patching",
                "shows a region in which part of the answer is restored",
                "“a light blue middle section”",
            ),
            (
                "text-pretrained-early",
                "has the state in far earlier layers than one from scratch",
                "“computes the state very early on”",
            ),
        )
    ),
    Claim(
        name="text-scratch",
        where="Figure 14, App. E",
        says="On sentences a Pythia from scratch reads parity and state at a similar rate",
        paper="“increases at a similar rate”",
        recipe=RECIPE,
        measure=parity_ahead(TEXT),
        rule=AtMost(0.25),
        ours=True,
        stand_in=TINY,
        note=(
            "How far the parity probe gets ahead at any layer, each probe from chance to right: "
            "hardly at all in the AA models of other rows, most of the way in the PAA ones. The "
            "model in which it gets furthest lies at the bound. Nor would probes alone decide: of "
            "very small Pythias they read parity late also where it was learned early "
            "([lenses-agree](#lenses-agree)), and by accuracy these are no AA models "
            "([text-mechanism](#text-mechanism))."
        ),
        noted=NOT_REACHED,
        picture="text",
    ),
    Claim(
        name="text-mechanism",
        where="App. E",
        says=(
            "So it more likely learns an associative algorithm; by cutoffs, as in other rows: the "
            "state's is that of parity"
        ),
        paper="“more likely learning an associative algorithm”; strict AA “is unclear”",
        recipe=RECIPE,
        measure=text.equal_cutoffs(TEXT),
        rule=AtLeast(0.5, least=4),
        ours=True,
        stand_in=TINY,
        note=(
            "Too few models to say. Those that there are speak against it: they know parity at "
            "every length they were taught and the state at shorter ones alone, which the paper "
            "reads as PAA. All lenses together call one of them PAA and the other AA, with less "
            "confidence ([tiny-text](results/tiny-text/results.csv)). The state was still getting "
            "better when training ended."
        ),
        noted=NOT_REACHED,
        picture="text",
    ),
    Claim(
        name="text-patching",
        where="Figure 14, App. E",
        says=(
            "On sentences a Pythia from scratch shows an associative pattern: what must be "
            "restored grows as doubling has it (1) and not as equal steps have it (0)"
        ),
        paper="“exponentially longer prefixes being disregarded”",
        recipe=RECIPE,
        measure=text.long_enough(text.mean_of_folders(TEXT, "patching", text.bend_of), DOUBLING),
        rule=AtLeast(DOUBLING),
        ours=True,
        stand_in=TINY,
        note=(
            "These models, those of [text-scratch](#text-scratch), know the state of so few "
            "actions that the rule could not tell doubling from equal steps: cut off at such a "
            "length, doubling itself would not meet it. What there is to see bends the other way: "
            "the steps become smaller."
        ),
        noted=NOT_REACHED,
        picture="text",
    ),
    Claim(
        name="text-exponential",
        where="Figure 14, App. E",
        says=(
            "There, too, the state probe improves exponentially with depth: more in the deeper half"
        ),
        paper="“improves exponentially over layers”",
        recipe=RECIPE,
        measure=text.mean_of_folders(TEXT, "probing", text.gain_of, "share"),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=TINY,
        picture="text",
    ),
    Claim(
        name="text-example",
        where="App. E",
        says=(
            "Swap positions 2 and 3, rotate the last item to the front, swap positions 1 and 2: "
            "132, 312, 213 end at 123"
        ),
        paper="123",
        recipe=RECIPE,
        measure=told_example,
        rule=AtLeast(1),
        note=(
            "With labels read as in Figure 1 the example would end elsewhere; the sentences decide."
        ),
        noted="",
        picture="examples",
    ),
    Claim(
        name="text-tokens",
        where="App. E",
        says="Told in words, swaps have 5 tokens and rotations 7",
        paper="5 and 7",
        recipe=RECIPE,
        note=(
            "Pythia's own tokenizer was not at hand. One that is trained on these sentences, as "
            "our models have, gives each of their words a token and so counts words."
        ),
        noted="",
    ),
)
