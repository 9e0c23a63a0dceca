"""Section 5.2 and appendix H: which mechanism is learned, and what decides it."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import (
    BOTH,
    FEW,
    PAPER,
    PRETRAINED,
    REGIMES,
    SCRATCH,
    SMALL,
)
from reproduction.measured import first_of
from reproduction.measures import seeds
from reproduction.measures import studies as study
from reproduction.measures.regime_effects import by_width
from reproduction.measures.studies import AA, EARLY, FULL, PAA
from reproduction.rules import NOT_REACHED, AtLeast, AtMost, Inside

TITLE = "Which mechanism is learned (§5.2, Figures 7 and 17)"

SIZES = (
    "Small GPT-2 from scratch became parity-associative whatever their width (64 to 256), length "
    "(16 to 32) or start marker, but for those that count ([lab notes](docs/lab-notes.md)); at the "
    "paper's size most did, not all. Very small ones (tables *On a laptop*) are of every kind."
)

MORE_MODELS = (
    "So few models leave room for a large effect either way; what parts widths is also which of "
    "them count, or compose parity, instead of what the paper saw."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="two-mechanisms",
        where="Abstract, §4",
        says="Every trained model uses one of two mechanisms, AA or PAA",
        paper="100%",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share((AA, PAA), *BOTH, verdict=FULL),
        at_size=study.share((AA, PAA), SCRATCH, verdict=FULL),
        rule=Inside(1),
        stand_in=REGIMES,
        note=(
            "Some GPT-2 are read as parallel, and one as mixed between that and PAA: parity is "
            "right everywhere and the state of every length appears in the same layers. Their "
            "cutoffs alone read as mixed, because they are right to the end. Not yet tried: "
            "whether they still count at greater lengths, which constant depth would allow."
        ),
        picture="proportions",
    ),
    Claim(
        name="no-sequential",
        where="§1, §4",
        says="No model composes step by step",
        paper="0%",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share("sequential", *BOTH, verdict=FULL),
        at_size=study.share("sequential", SCRATCH, verdict=FULL),
        rule=Inside(0),
        stand_in=REGIMES,
        picture="proportions",
    ),
    Claim(
        name="no-parallel",
        where="§1, §4",
        says="No model composes everything in parallel",
        paper="0%",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share("parallel", *BOTH, verdict=FULL),
        at_size=study.share("parallel", SCRATCH, verdict=FULL),
        rule=Inside(0),
        stand_in=REGIMES,
        note=(
            "Very small models on short sequences do (tables *On a laptop* at the end): with "
            "parity known early, the rest of S3 can be counted (App. A). One is zoo:s3-parallel. "
            "So do a few GPT-2 of the small models beside this row, which are right to the end of "
            "their length."
        ),
        noted="",
        general=True,
        picture="proportions",
    ),
    Claim(
        name="gpt2-scratch",
        where="Figure 7, §5.2",
        says="GPT-2 from scratch is split about evenly between AA and PAA",
        paper="50% AA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share(AA, "small", model="gpt2"),
        at_size=study.share(AA, SCRATCH, verdict=EARLY, model="gpt2"),
        rule=Inside(0.5),
        stand_in=SMALL,
        note=SIZES,
        picture="proportions",
        note_at_size=FEW,
    ),
    Claim(
        name="both-by-seed",
        where="§4.2",
        says="Training runs that differ in their seed alone come to either mechanism (GPT-2)",
        paper="both",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=seeds.kinds_of_seeds(SCRATCH, model="gpt2"),
        rule=AtLeast(2, least=2),
        picture="proportions",
    ),
    Claim(
        name="data-order",
        where="§4.2",
        says="So do runs that differ in the order of their data alone",
        paper="both",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=first_of(
            seeds.kinds_of_seeds(SCRATCH, same_start=True, model="gpt2"),
            seeds.kinds_of_seeds("tiny-split", same_start=True),
            seeds.kinds_of_seeds("tiny-orders", same_start=True, apart=("width", "init_seed")),
        ),
        rule=AtLeast(2, least=2),
        stand_in="recipes/studies/tiny-split.toml",
        note=(
            "A seed of ours also draws the initial weights, unless init_seed is given, as for "
            "these, which all begin with the same. From most starts every order leads to the same "
            "mechanism ([tiny-orders](results/tiny-orders/results.csv), six orders each); this is "
            "the one of four from which it does not."
        ),
        noted="",
        picture="orders",
    ),
    Claim(
        name="data-orders",
        where="§5.2",
        says="Up to 12 data orders were tried of each model",
        paper="12",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=seeds.most_seeds("tiny-split"),
        at_size=seeds.most_seeds(SCRATCH),
        rule=AtLeast(12, least=12),
        stand_in="recipes/studies/tiny-split.toml",
        picture="proportions",
        note_at_size=FEW,
    ),
    Claim(
        name="gpt2-pretrained",
        where="Figure 7, §5.2",
        says="So is pretrained GPT-2",
        paper="50% AA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        note=PRETRAINED,
        noted="",
    ),
    Claim(
        name="pythia-scratch",
        where="Figure 7, §5.2",
        says="Pythia from scratch mostly learns PAA",
        paper="> 50% PAA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share(PAA, "small", verdict=EARLY, model="pythia"),
        at_size=study.share(PAA, SCRATCH, verdict=EARLY, model="pythia-160m"),
        rule=AtLeast(0.5, 4),
        stand_in=SMALL,
        picture="proportions",
    ),
    Claim(
        name="pythia-pretrained",
        where="Figure 7, §5.2",
        says="Pythia pretrained on the Pile mostly learns AA",
        paper="> 50% AA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        note=PRETRAINED,
        noted="",
    ),
    Claim(
        name="sizes-gpt2",
        where="Figure 17, §5.2, App. H",
        says=(
            "Model size hardly matters: how much more common PAA is in the widest GPT-2 than in "
            "the narrowest"
        ),
        paper="a minimal effect",
        recipe=f"{PAPER}/figure-17-sizes.toml",
        measure=by_width("small", "tiny", model="gpt2"),
        rule=Inside(0, least=12, widest=60),
        ours=True,
        stand_in=SMALL,
        note=MORE_MODELS,
        noted=NOT_REACHED,
        picture="sizes",
    ),
    Claim(
        name="sizes-pythia",
        where="Figure 17, §5.2, App. H",
        says="Model size hardly matters: the same of Pythia",
        paper="a minimal effect",
        recipe=f"{PAPER}/figure-17-sizes.toml",
        measure=by_width("small", "tiny", model="pythia"),
        rule=Inside(0, least=12, widest=60),
        ours=True,
        stand_in=SMALL,
        picture="sizes",
        note=MORE_MODELS,
        noted=NOT_REACHED,
    ),
    Claim(
        name="family",
        where="§5.2, App. H",
        says=(
            "Architecture decides more than size: from scratch fewer GPT-2 than Pythia learn PAA"
        ),
        paper="GPT-2 about 50 points below",
        recipe=f"{PAPER}/figure-17-sizes.toml",
        measure=study.share_gap(PAA, "small", "model", ("gpt2", "pythia"), EARLY),
        at_size=study.share_gap(PAA, SCRATCH, "model", ("gpt2", "pythia-160m"), EARLY),
        rule=AtMost(0, 12),
        stand_in=SMALL,
        picture="proportions",
        note_at_size=FEW,
    ),
    Claim(
        name="four-factors",
        where="§5.2",
        says=(
            "Architecture, size, initialisation and data order decide the mechanism, and nothing "
            "else does: runs that are alike in these end alike"
        ),
        paper="always",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        note=(
            "The tests repeat short runs of every family and compare their weights bit for bit; no "
            "study trains a cell twice to its verdict."
        ),
        noted="",
    ),
    Claim(
        name="bfloat16",
        where="§4.1",
        says="Models of more than 700 million parameters are trained in bfloat16",
        paper="bfloat16",
        recipe=f"{PAPER}/figure-17-sizes.toml",
        note=(
            "No model of that size has been trained here. On a GPU all of ours, whatever their "
            "size, compute in bfloat16 and keep float32 weights, so that precision would not part "
            "large models from small ones."
        ),
        noted="",
    ),
)
