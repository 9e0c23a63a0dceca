"""Section 4.4: how far models reach."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import (
    BOTH,
    FEW,
    PAPER,
    REGIMES,
    S5_STUDIES,
    SAME_START,
    SCRATCH,
    ZOO_A,
    ZOO_P,
)
from reproduction.measured import first_of
from reproduction.measures import models as lens
from reproduction.measures import s5
from reproduction.measures import studies as study
from reproduction.measures.studies import AA, PAA
from reproduction.model_selection import A, P, zoo
from reproduction.results import Row
from reproduction.rules import NOT_REACHED, AtLeast, AtMost, Inside, Near

SAME = 0.05
"""Cutoffs that are at most this share of the state's apart are equal."""


def same(state: int | None, parity: int | None) -> bool:
    """As far as cutoffs can be known: those of large models pass 98% slowly, and 1,000 sequences
    place them a few lengths off."""
    if state is None or parity is None:
        return state == parity
    return abs(parity - state) <= SAME * state


def _ended(row: Row) -> bool:
    """Whether its state cutoff lies within the training length: beyond it both are equal anyway."""
    return bool(row["cutoff"] is not None and row["cutoff"] <= row["length"])


def _parity_beyond(row: Row) -> bool:
    return bool(row["parity_cutoff"] is None or row["parity_cutoff"] > row["cutoff"])


def _equal(row: Row) -> bool:
    return same(row["cutoff"], row["parity_cutoff"])


def aa_ahead(column: str, **about: str) -> Claim:
    """A claim that a column of the tables of studies is larger for AA models."""
    return Claim(
        **about,  # type: ignore[arg-type]
        measure=study.ahead(column, "tiny-split"),
        at_size=study.ahead(column, SCRATCH, model="gpt2"),
        rule=AtLeast(0, least=12),
        stand_in="recipes/studies/tiny-split.toml",
        picture="further",
        note=SAME_START,
        noted=NOT_REACHED,
        note_at_size=FEW,
    )


ROTARY = "s3-rotary"
"""The parity-associative one of the zoo whose positions are rotary, as those of Pythia."""
LEARNED_POSITIONS = (
    "It is a GPT-2, whose positions are learned: those beyond the training length never were, so "
    "that a fall is certain. The paper's are Pythias, whose positions are rotary, and no AA model "
    "of that kind was looked at beyond its length."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="paa-cutoffs",
        where="Figure 5, §4.4",
        says="In PAA models the parity cutoff (98%) lies beyond that of the state",
        paper="100%",
        recipe=f"{PAPER}/figure-5-generalization.toml",
        measure=study.share_where(_parity_beyond, *BOTH, among=_ended, mechanism=PAA),
        at_size=study.share_where(_parity_beyond, SCRATCH, among=_ended, mechanism=PAA),
        rule=Inside(1),
        stand_in=REGIMES,
        note=(
            "The exception (topic model 2, seed 1) knows little more than half of the states "
            "after 10,000 steps; its lenses read as parity-associative, its cutoffs as "
            "associative. Models that are right to the end of their training length are left out:"
            " their cutoffs say nothing."
        ),
        picture="cutoffs",
    ),
    Claim(
        name="aa-cutoffs",
        where="Figure 5, §4.4",
        says="In AA models the two cutoffs are equal (to 5%)",
        paper="100%",
        recipe=f"{PAPER}/figure-5-generalization.toml",
        measure=study.share_where(_equal, *BOTH, among=_ended, mechanism=AA),
        at_size=study.share_where(_equal, SCRATCH, among=_ended, mechanism=AA),
        rule=Inside(1),
        ours=True,
        stand_in=REGIMES,
        note=(
            "Too few associative models fell below 98% within their training length; one of them "
            "is not quite in lockstep ([lockstep](#lockstep))."
        ),
        noted=NOT_REACHED,
        picture="cutoffs",
        note_at_size=FEW,
    ),
    Claim(
        name="aa-cutoffs-one",
        where="Figure 5, §4.4",
        says=(
            "In the AA model that other rows look into the two cutoffs are equal (how far parity's "
            "lies beyond, of the state's)"
        ),
        paper="0",
        recipe=f"{PAPER}/figure-5-generalization.toml",
        measure=lens.cutoffs(A, relative=True),
        rule=Inside(0, widest=0.15),
        ours=True,
        stand_in=ZOO_A,
        picture="generalization",
    ),
    Claim(
        name="paa-cutoffs-one",
        where="Figure 5, §4.4",
        says="In the PAA model that other rows look into parity's cutoff lies beyond the state's",
        paper="> 0 lengths apart",
        recipe=f"{PAPER}/figure-5-generalization.toml",
        measure=lens.cutoffs(P),
        rule=AtLeast(1),
        stand_in=ZOO_P,
        picture="generalization",
    ),
    aa_ahead(
        "cutoff",
        name="aa-further",
        where="Figure 5, §4.4",
        says="AA models generalise to longer sequences than PAA models",
        paper="larger state cutoff",
        recipe=f"{PAPER}/figure-5-generalization.toml",
    ),
    Claim(
        name="s5-generalization",
        where="Figure 5, §4.4",
        says="On S5 the cutoffs of AA models are equal and those of PAA models are not",
        paper="equal, unequal",
        recipe=f"{PAPER}/figure-5-generalization.toml",
        measure=first_of(
            s5.share_of_studies(S5_STUDIES, _equal, _parity_beyond, _ended),
            s5.share_of_kept(
                "generalization.json", s5.by_cutoffs, lambda gap: gap == 0, lambda gap: gap > 0
            ),
        ),
        rule=Inside(1),
        picture="generalization-s5",
        note=(
            "The only PAA model of S5 that was looked into was taught parity first, and is right "
            "to the end of its length, as the AA model is: their cutoffs say nothing."
        ),
        noted=NOT_REACHED,
    ),
    *(
        Claim(
            name=f"{kind}-reach",
            where="§4.4",
            says=f"{article} {kind.upper()} model knows the state up to its training length",
            paper="1 training length",
            recipe=f"{PAPER}/figure-5-generalization.toml",
            measure=lens.reach(model),
            rule=Near(1, 0.1),
            stand_in=recipe,
            note=(
                "It knows nearly all of its length, and how nearly cannot be told from so many "
                "sequences."
            ),
            noted=NOT_REACHED,
            picture="beyond",
        )
        for kind, article, model, recipe in (("aa", "An", A, ZOO_A), ("paa", "A", P, ZOO_P))
    ),
    *(
        Claim(
            name=f"{kind}-drop",
            where="§4.4",
            says=(
                f"and {article} {kind.upper()} model's accuracy falls steeply beyond it: a quarter "
                "beyond"
            ),
            paper="a steep fall",
            recipe=f"{PAPER}/figure-5-generalization.toml",
            measure=lens.accuracy_beyond(model, 1.25),
            rule=AtMost(0.5),
            ours=True,
            stand_in=recipe,
            note=note,
            noted="",
            general=True,
            picture="beyond",
        )
        for kind, article, model, recipe, note in (
            ("aa", "an", A, ZOO_A, LEARNED_POSITIONS),
            ("paa", "a", zoo(ROTARY), f"recipes/zoo/{ROTARY}.toml", ""),
        )
    ),
)
