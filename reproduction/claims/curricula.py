"""Section 5.3: what is taught before. (Appendix H: stages.py.)"""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, PRETRAINED, REGIMES
from reproduction.measured import Measure, first_of
from reproduction.measures import studies as study
from reproduction.measures.regime_effects import FEWER, MORE, moved, pushed
from reproduction.measures.studies import AA, PAA
from reproduction.measures.theory import topic_tables
from reproduction.results import Row
from reproduction.rules import AtLeast, AtMost, Inside

TINY_PYTHIA = "recipes/studies/tiny-pythia.toml"

TITLE = "What is taught before (§5.3, Figures 7, 18 and 19, App. H)"


TOPIC = (
    "Topic models make AA likely at this size (from scratch none has it), not "
    "certain. Of earlier models the wide ones on longer sequences took it and most narrow or "
    "short ones did not ([lab notes](docs/lab-notes.md)), so the share may "
    "reach 100% with size. The stage lasted 2,000 steps; longer ones were not "
    "tried."
)


def either(mechanism: str, regime: str) -> Measure:
    """The share of a mechanism after a regime, of very small models where there are no others."""
    return first_of(
        study.share(mechanism, "small-regimes", regime=regime),
        study.share(mechanism, "tiny-regimes", regime=regime),
    )


def _associative(row: Row) -> bool:
    return bool(row["verdict"] == AA)


def _after_topics(row: Row) -> bool:
    return str(row["regime"]).startswith("topic")


RANDOM = (
    "In every one of three studies AA is more common after random documents than from scratch, "
    "though not by much in any but that of one start; and in none of them clearly rarer than after "
    "topic models. It may be next-token prediction itself that pushes small models, topics or not. "
    "Not yet tried: random documents at the paper's size, which is where the paper saw none of it."
)
FIRST_TABLE = (
    "As at width 256 ([topic-gpt2](#topic-gpt2)) it is the second table that pushes, and not the "
    "first. In the first nearly all tokens are odd, in the second both kinds are common and topics "
    "differ in them ([picture](#picture-topics)). Whether that is why was not tried."
)
NO_EFFECT = Inside(0, least=12, widest=60)
"""A gap of shares in points: none inside our interval, which leaves no room for a large one."""
START = ("tiny-split", "tiny-split-regimes")
"""Models that began with the same weights: from scratch, and after something else."""
PAIRS = (("small", "small-regimes"), ("tiny", "tiny-regimes"), ("tiny", "tiny-pythia"), START)
"""All of these: the study of models from scratch, and that of the same after something else."""
CONTROLS = (PAIRS[0], ("tiny-control", "tiny-control"), START)
"""Those with random documents, no model twice."""
TAUGHT = tuple((study, study) for study in ("small-regimes", "tiny-regimes", START[1]))
"""Those with topic models as well as random documents."""

PROPORTIONS, TOPICS, LENGTHS = (
    f"{PAPER}/figure-{name}.toml"
    for name in ("7-proportions", "18-topic-models", "19-length-curriculum")
)
AUX = "recipes/studies/auxiliary.toml"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="topic-tables",
        where="App. H",
        says=(
            "The two printed tables give p(token | topic) of four topics each: their rows sum to "
            "1, as far as three digits go"
        ),
        paper="2 tables of 4 topics",
        recipe="recipes/regimes/topic.toml",
        measure=topic_tables,
        rule=AtLeast(1),
        picture="topics",
    ),
    Claim(
        name="topic-gpt2",
        where="Figure 7, §5.3",
        says="After a topic model GPT-2 always learns AA",
        paper="100% AA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share(AA, "small-regimes", regime="topic-1"),
        rule=Inside(1),
        stand_in=REGIMES,
        note=TOPIC,
        picture="proportions",
    ),
    Claim(
        name="topic-2-gpt2",
        where="Figure 18, App. H",
        says="So it does after the second topic model",
        paper="100% AA",
        recipe=f"{PAPER}/figure-18-topic-models.toml",
        measure=study.share(AA, "small-regimes", regime="topic-2"),
        rule=Inside(1),
        stand_in=REGIMES,
        note=(
            "The one that differs (seed 1) is far from having learned the task after 10,000 "
            "steps, and its cutoffs, which is what the paper goes by, read as associative; "
            "patching, depth and probes say parity-associative."
        ),
        picture="proportions",
    ),
    *(
        Claim(
            name=f"topic-{table}-cutoffs",
            where="Figures 7 and 18, App. H",
            says=(
                f"The same for topic model {table} by the paper's own reading: cutoffs alone, of "
                "models that are still learning"
            ),
            paper="100% AA",
            recipe=f"{PAPER}/figure-18-topic-models.toml",
            measure=study.share(
                AA, "small-regimes", verdict="early_verdict", regime=f"topic-{table}"
            ),
            rule=Inside(1),
            stand_in=REGIMES,
            note=TOPIC if table == 1 else "",
            picture="pushes",
        )
        for table in (1, 2)
    ),
    Claim(
        name="topic-effect",
        where="§5.3, Figure 18",
        says=(
            "Topic models push towards AA: it is more common after either of them than from scratch"
        ),
        paper="always AA",
        recipe=f"{PAPER}/figure-18-topic-models.toml",
        measure=pushed("topic", MORE, *PAIRS),
        rule=AtMost(0.05, 12),
        ours=True,
        stand_in=REGIMES,
        picture="pushes",
    ),
    Claim(
        name="topic-control",
        where="§5.3",
        says=(
            "It is their topics that push: AA is more common after topic models than after random "
            "documents"
        ),
        paper="always after the former, as from scratch after the latter",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=pushed("topic", MORE, *TAUGHT, against="control"),
        rule=AtMost(0.05, 12),
        ours=True,
        stand_in=REGIMES,
        note=RANDOM,
        picture="pushes",
    ),
    Claim(
        name="topic-pythia",
        where="Figures 7 and 18, §5.3",
        says="After either topic model Pythia always learns AA",
        paper="100% AA",
        recipe=f"{PAPER}/figure-18-topic-models.toml",
        measure=study.share_where(_associative, "tiny-pythia", among=_after_topics),
        rule=Inside(1),
        stand_in=TINY_PYTHIA,
        note=(
            "All exceptions come after the first topic model; the second makes every one of them "
            "AA, though none of them has learned the whole task. With GPT-2 of this size, too, the "
            "second does more, and with more Pythias from one start "
            "([start-topic-1](#start-topic-1), [start-topic-2](#start-topic-2))."
        ),
        picture="regimes",
    ),
    Claim(
        name="parity-gpt2",
        where="Figure 7, §5.3",
        says="After learning parity GPT-2 learns PAA",
        paper="100% PAA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=either(PAA, "parity"),
        rule=Inside(1),
        stand_in=REGIMES,
        picture="regimes",
    ),
    Claim(
        name="parity-pythia",
        where="Figure 7, §5.3",
        says="After learning parity Pythia from scratch learns PAA",
        paper="100% PAA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=study.share(PAA, "tiny-pythia", regime="parity"),
        rule=Inside(1),
        stand_in=TINY_PYTHIA,
        note=(
            "The exception is read by the lenses as counting, hardly more surely than as PAA, and "
            "as PAA by its cutoffs, which is what the paper goes by. More Pythias, from one start, "
            "are in [start-parity](#start-parity): none of them is AA, and one counts."
        ),
        picture="regimes",
    ),
    Claim(
        name="parity-pythia-pretrained",
        where="Figure 7, §5.3",
        says="It turns Pythia that was pretrained on the Pile from AA to PAA, each time",
        paper="100% PAA",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        note=PRETRAINED,
        noted="",
    ),
    Claim(
        name="control",
        where="§5.3",
        says=(
            "Random documents change nothing: how much more common AA is after them than from "
            "scratch"
        ),
        paper="as common",
        recipe=f"{PAPER}/figure-7-proportions.toml",
        measure=moved("control", *CONTROLS),
        rule=NO_EFFECT,
        ours=True,
        stand_in=REGIMES,
        note=RANDOM,
        picture="pushes",
    ),
    *(
        Claim(
            name=f"start-{regime}",
            where=where,
            says=f"From a start that becomes either kind, AA is {said}",
            paper=paper,
            recipe=recipe,
            measure=pushed(regime, way, START),
            rule=AtMost(0.05, 12),
            ours=True,
            stand_in="recipes/studies/tiny-split-regimes.toml",
            note=FIRST_TABLE if regime == "topic-1" else "",
            picture="start",
        )
        for regime, way, where, paper, said, recipe in (
            ("topic-1", MORE, "§5.3", "always AA", "more common after topic model 1", TOPICS),
            ("topic-2", MORE, "App. H", "always AA", "more common after topic model 2", TOPICS),
            ("parity", FEWER, "§5.3", "PAA", "less common after parity", PROPORTIONS),
            (
                "auxiliary-parity",
                FEWER,
                "App. H",
                "PAA",
                "less common with a classifier of parity",
                AUX,
            ),
        )
    ),
)
