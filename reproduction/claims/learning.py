"""Section 5.1 and appendix G: what models learn first. (How far they reach: reaching.py.)"""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import (
    BOTH,
    FEW,
    PAPER,
    REGIMES,
    S5_STUDIES,
    SCRATCH,
    ZOO_A,
    ZOO_P,
)
from reproduction.claims.reaching import aa_ahead, same
from reproduction.measured import first_of
from reproduction.measures import evidence, logs, s5
from reproduction.measures import models as lens
from reproduction.measures import studies as study
from reproduction.measures.studies import AA, PAA, UNLEARNED
from reproduction.model_selection import A, P
from reproduction.results import Row
from reproduction.rules import AtLeast, Inside

TITLE = "Generalization and training (§4.4, §5.1, Figures 5 and 6, App. G)"


def _parity_early(row: Row) -> bool:
    state, parity = row["early_cutoff"], row["early_parity_cutoff"]
    return bool(state is not None and (parity is None or parity > state))


def _equal_early(row: Row) -> bool:
    return same(row["early_cutoff"], row["early_parity_cutoff"])


def _as_early(row: Row) -> bool:
    return bool(row["early_verdict"] == row["verdict"])


def _had_begun(row: Row) -> bool:
    """Whether it knew something at the early look."""
    return bool(row["early_verdict"] not in (None, UNLEARNED))


def _went_on(row: Row) -> bool:
    """Whether it was trained on after the early look."""
    return bool(row["early_step"] is not None and row["early_step"] < row["step"])


def _untaught(row: Row) -> bool:
    """Whether it was taught nothing before, or beside: it is no wonder if parity comes first."""
    return not row.get("regime") or row["regime"] == "scratch"


def _parity_whole(row: Row) -> bool:
    end = row["early_parity_cutoff"]
    return bool(end is None or end > row["length"])


AHEAD = (
    "Among the small models there are some, mostly Pythias, that have learned parity long before "
    "the state, keep it where the state is wrong, and yet patch as AA: the layers they need grow "
    "with length for pairs of either parity. They seem to compose parity as well, instead of "
    "counting it ([lab notes](docs/lab-notes.md)). What is learned first and how it is computed "
    "are two questions, of which the paper's two mechanisms answer both at once."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="two-phases",
        where="Figure 6, §5.1, App. G",
        says=(
            "PAA models learn parity first: midway their parity cutoff is beyond that of the state"
        ),
        paper="100%",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=study.share_where(_parity_early, *BOTH, among=_had_begun, mechanism=PAA),
        at_size=study.share_where(_parity_early, SCRATCH, among=_went_on, mechanism=PAA),
        rule=Inside(1),
        stand_in=REGIMES,
        note=(
            "The exception was taught longer sequences in stages and had come to the last length "
            "not long before."
        ),
        picture="midway",
    ),
    Claim(
        name="parity-whole",
        where="Figure 6, §5.1, App. G",
        says=(
            "PAA models know parity over the whole training length before they know the state: "
            "midway they do"
        ),
        paper="first parity over the entire length, only then the state",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=study.share_where(_parity_whole, *BOTH, mechanism=PAA),
        at_size=study.share_where(_parity_whole, SCRATCH, among=_went_on, mechanism=PAA),
        rule=Inside(1),
        note=(
            "Midway is one moment, and a model whose parity was not whole by then may still have "
            "completed it before the state; one that was right about both by then is an exception "
            "that says nothing."
        ),
        stand_in=REGIMES,
        picture="midway",
    ),
    Claim(
        name="lockstep",
        where="Figure 6, §5.1, App. G",
        says="AA models learn parity and state together: midway their cutoffs are equal (to 5%)",
        paper="100%",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=study.share_where(_equal_early, *BOTH, mechanism=AA),
        at_size=study.share_where(_equal_early, SCRATCH, among=_went_on, mechanism=AA),
        rule=Inside(1),
        ours=True,
        stand_in=REGIMES,
        picture="midway",
        note=AHEAD,
    ),
    Claim(
        name="lockstep-logs",
        where="Figure 6, §5.1, App. G",
        says=(
            "AA models that were not taught parity learn it together with the state: it leads by "
            "less than 10% of what it could"
        ),
        paper="100%",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=evidence.share(lambda one: one.together, lambda one: one.logged, AA),
        at_size=logs.share_of_leads(A, lambda lead: lead < evidence.LEAD),
        rule=Inside(1),
        ours=True,
        stand_in=ZOO_A,
        note=AHEAD,
        noted="",
        general=True,
        picture="leads",
    ),
    Claim(
        name="phases-logs",
        where="Figure 6, §5.1, App. G",
        says=(
            "PAA models that were not taught parity learn in two phases: it leads by more than 10% "
            "of what it could"
        ),
        paper="100%",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=evidence.share(lambda one: not one.together, lambda one: one.logged, PAA),
        at_size=logs.share_of_leads(P, lambda lead: lead >= evidence.LEAD),
        rule=Inside(1),
        ours=True,
        stand_in=ZOO_P,
        picture="leads",
        note_at_size=FEW,
    ),
    aa_ahead(
        "accuracy",
        name="aa-converges",
        where="Figure 6, §4.4, §6",
        says="AA models converge faster: more states right after equal steps",
        paper="higher accuracy",
        recipe=f"{PAPER}/figure-6-training.toml",
    ),
    *(
        Claim(
            name=f"{kind}-progress",
            where="App. G",
            says=(
                f"{article} {kind.upper()} model learns longer and longer sequences, not all "
                "lengths at once: rank correlation of lengths with when they were learned"
            ),
            paper="progressively",
            recipe=f"{PAPER}/figure-6-training.toml",
            measure=lens.by_length(model),
            rule=AtLeast(0.9),
            ours=True,
            stand_in=recipe,
            picture="training",
        )
        for kind, article, model, recipe in (("aa", "An", A, ZOO_A), ("paa", "A", P, ZOO_P))
    ),
    Claim(
        name="s5-training",
        where="Figure 6, App. G",
        says="On S5 a PAA model learns in two phases and an AA model in one",
        paper="two, one",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=first_of(
            s5.share_of_studies(S5_STUDIES, _equal_early, _parity_early, _untaught),
            s5.share_of_kept(
                "dynamics.json",
                s5.untaught(s5.by_training),
                lambda lead: lead < s5.LOCKSTEP,
                lambda lead: lead > s5.LOCKSTEP,
            ),
        ),
        rule=Inside(1),
        note=(
            "Of S5 two models from scratch were looked at midway, and the verdict is not sure of "
            "the one that is PAA. Those that were taught parity are left out."
        ),
        noted="",
        picture="midway",
    ),
    Claim(
        name="early",
        where="§5.1",
        says=(
            "The mechanism can be told early in training: the reading by cutoffs midway is the "
            "final one, by all lenses"
        ),
        paper="very early; after 10,000 of 140,625 steps",
        recipe=f"{PAPER}/figure-6-training.toml",
        measure=study.share_where(_as_early, *BOTH, among=_went_on),
        at_size=study.share_where(_as_early, SCRATCH, among=_went_on),
        rule=AtLeast(0.5, 4),
        ours=True,
        stand_in=REGIMES,
        picture="midway",
        note=(
            "Midway is later than the paper's very early: half of these runs, against a "
            "fourteenth of the paper's."
        ),
        noted="",
    ),
)
