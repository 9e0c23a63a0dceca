"""Section 4.5 and appendix F: parity heads and the attention tree."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, TAUGHT_TOO, ZOO_A, ZOO_P
from reproduction.measures import evidence
from reproduction.measures import heads as lens
from reproduction.measures.studies import AA, PAA
from reproduction.model_selection import S5_A, S5_P, A, P
from reproduction.rules import NOT_REACHED, AtLeast, AtMost, Near, Unmeasured
from statetrace.mechanisms.distances import LOST

TITLE = "Attention (§4.5, Figures 15 and 16, Table 2, App. F)"

SCORES = (
    "How to read scores, in all rows: the paper's formula adds up one term for every prefix of 5 "
    "to L actions, which are L − 4, and divides by L − 5. A head that looks at odd actions in all "
    "of them therefore scores more than 100%, the more so the shorter L is; that is the number "
    "behind 'of at most'. The chance level comes from calling arbitrary actions odd: what the best "
    "of all heads scores then, on average."
)
SHORT = (
    "A score is the share of prefixes from 5 actions on, of which short sequences have few, so "
    "that even an untrained model's best head scores high ([lab notes](docs/lab-notes.md)); the "
    "paper's prefixes reach to 80."
)
S5_SHORT = (
    "A score is the share of prefixes from 5 actions on, of which sequences this short have few; "
    "the paper's reach to 50. "
)
S5_HEADS = (
    "Nor does this model need a parity head: without the best one parity is as right as before, "
    "and only without the best two does it suffer (ablation in attention.json). Of four different "
    "actions pieces may be looked up, so that nothing has to be counted ([lab "
    f"notes](docs/lab-notes.md)). {TAUGHT_TOO}"
)
S5_NO_HEADS = (
    "Sequences this short leave the interval on both sides of the paper's number. The scores are "
    "no higher than by chance: there is no parity head, as the paper says."
)


CHANCE = (
    "Judged model by model: the number is that of the model that fits the claim least. The chance "
    "level is a mean, so that a model without parity heads lies above it about every second time; "
    "small AA models do so no more often, and hardly any as clearly as the verdict asks. Some "
    "small PAA models have no head that stands out ([lab notes](docs/lab-notes.md))."
)


class Beyond(Unmeasured):
    """For rows about which the paper says nothing."""

    def text(self) -> str:
        return "none: beyond the paper"


def _needed(one: evidence.Model) -> bool:
    return one.lost is not None and one.lost >= 100 * LOST


CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            name=f"table-2-s3-paa-{rank}",
            where="Table 2, §4.5, App. F",
            says=f"Parity-head score of the {name} head of a PAA model on S3",
            paper=f"{score}%",
            recipe=f"{PAPER}/table-2-parity-head-scores.toml",
            measure=lens.head_score(P, rank),
            rule=Near(score, 10),
            stand_in=ZOO_P,
            note=SHORT,
            noted="",
            note_at_size=(
                "This is not a matter of the sequences, which are long enough here, nor of "
                "chance, above which the head lies. PAA models of this size differ among each "
                "other: of the two others in results/, both earlier in training and looked at on "
                "shorter sequences, a second Pythia scores above the paper's in every rank and "
                "GPT-2 below."
            ),
            picture="table-2",
        )
        for rank, name, score in ((1, "best", 90.1), (2, "second", 86.4), (3, "third", 67.1))
    ),
    Claim(
        name="two-heads",
        where="App. F",
        says="PAA models have at least two heads with scores well above 50%",
        paper="at least two attention heads significantly exceeding 50%",
        recipe=f"{PAPER}/table-2-parity-head-scores.toml",
        measure=lens.head_score(P, 2),
        rule=AtLeast(50),
        stand_in=ZOO_P,
        note=SCORES,
        noted="",
        general=True,
        picture="table-2",
    ),
    *(
        Claim(
            name=f"table-2-s3-aa{f'-{rank}' if rank > 1 else ''}",
            where="Table 2, App. F",
            says=f"No {name}head of an AA model on S3 scores more than {score}%",
            paper=f"{score}%",
            recipe=f"{PAPER}/table-2-parity-head-scores.toml",
            measure=lens.head_score(A, rank),
            rule=AtMost(score),
            stand_in=ZOO_A,
            note=(
                f"{SHORT} This model's best head is below chance, that is, it has no parity head "
                "either (row after these)."
            ),
            note_at_size=(
                "This long, prefixes are as many as the paper's. Some heads of the first layers "
                "prefer some actions to others, and any set of actions that has these in it gets "
                "such a score, whether it is that of the odd ones or not: that is the chance level "
                "beside the number, above which no head stands out (row after these). Heads as "
                "even as the paper's number asks for, in all layers, none of our models has."
            ),
            picture="table-2",
        )
        for rank, name, score in ((1, "", 3.3), (2, "second ", 3.0), (3, "third ", 2.0))
    ),
    Claim(
        name="aa-no-heads",
        where="§4.5, App. F",
        says=(
            "AA models have no parity heads: in none does the best head score more than by chance "
            "(points above it)"
        ),
        paper="no evidence of parity heads in any layer",
        recipe=f"{PAPER}/table-2-parity-head-scores.toml",
        measure=evidence.head_surplus(AA, max),
        at_size=lens.beyond_chance(A, max),
        rule=AtMost(0),
        ours=True,
        stand_in=ZOO_A,
        note=CHANCE,
        noted="",
        general=True,
        picture="needed-heads",
    ),
    Claim(
        name="paa-heads",
        where="§4.5, App. F",
        says=(
            "PAA models have parity heads: in all of them the best head scores more than by chance "
            "(points above it)"
        ),
        paper="heads that place attention to odd-parity actions",
        recipe=f"{PAPER}/table-2-parity-head-scores.toml",
        measure=evidence.head_surplus(PAA, min),
        at_size=lens.beyond_chance(P, min),
        rule=AtLeast(0),
        ours=True,
        stand_in=ZOO_P,
        note=CHANCE,
        noted="",
        general=True,
        picture="needed-heads",
    ),
    Claim(
        name="heads-needed",
        where="beyond the paper",
        says="Of PAA models, those that lose parity without their best parity head",
        paper="no head is removed",
        recipe=f"{PAPER}/table-2-parity-head-scores.toml",
        measure=evidence.share(_needed, lambda one: one.lost is not None, PAA),
        at_size=lens.needed_heads(P),
        rule=Beyond(),
        stand_in=ZOO_P,
        note=(
            "The paper removes no heads, so that there is nothing to compare with. Parity counts "
            "as lost by as much as the verdict asks ([how](docs/verdict.md)). Models of the "
            "paper's size keep it even without their best three heads (attention.json), small ones "
            "mostly do not without one; but then many small AA models lose parity with their best "
            "head as well (picture), as they know it by the state. Other heads may do the same: "
            "attention that is even over all actions counts odd ones as well, if values tell odd "
            "from even ([lab notes](docs/lab-notes.md))."
        ),
        noted="",
        general=True,
        picture="needed-heads",
    ),
    Claim(
        name="heads-early",
        where="Table 2, §4.5, App. F",
        says="Two heads of PAA models that score well above 50% lie in the first few layers",
        paper="in the first few layers (0 and 1 of S3, 2 and 3 of S5)",
        recipe=f"{PAPER}/table-2-parity-head-scores.toml",
        measure=lens.heads_depth(P),
        rule=AtMost(1 / 3),
        ours=True,
        stand_in=ZOO_P,
        note_at_size=(
            "One of the two lies there, the other a layer beyond the bound. The two other models "
            "of this size in results/ have several such heads in their first three layers."
        ),
        picture="heads",
    ),
    *(
        Claim(
            name=f"table-2-s5-{kind.split()[1].lower()}-{rank}",
            where="Table 2, App. F",
            says=f"Parity-head score of head {rank} by rank of {kind} model on S5",
            paper=f"{score}%",
            recipe=f"{PAPER}/table-2-parity-head-scores.toml",
            measure=lens.head_score(model, rank),
            rule=AtMost(score) if model == S5_A else Near(score, 10),
            note=S5_SHORT + (S5_HEADS if model == S5_P else S5_NO_HEADS),
            noted="" if model == S5_P else NOT_REACHED,
            picture="table-2",
        )
        for kind, model, scores in (
            ("a PAA", S5_P, (83.6, 80.6, 50.3)),
            ("an AA", S5_A, (5.9, 3.8, 3.2)),
        )
        for rank, score in enumerate(scores, start=1)
    ),
    Claim(
        name="odd-only",
        where="Figure 15, §4.5",
        says="Parity heads attend almost only to odd actions",
        paper="almost exclusively to odd-parity tokens",
        recipe=f"{PAPER}/figure-15-parity-heads.toml",
        measure=lens.odd_attention(P),
        rule=AtLeast(0.9),
        ours=True,
        stand_in=ZOO_P,
        note=(
            "A score counts prefixes where odd actions get significantly more attention, not how "
            "much more: the head with the best score is nearly uniform, the second one does look "
            "at them (picture)."
        ),
        note_at_size=(
            "Two heads of the first half look at odd actions far more than at even ones (picture), "
            "if not as exclusively as the bound asks, which is ours. Of the two other models of "
            "this size in results/, earlier in training and on shorter sequences, GPT-2 meets it "
            "and a second Pythia does not."
        ),
        picture="parity-heads",
    ),
    Claim(
        name="tree",
        where="Figure 16, §4.5, App. F",
        says="The attention of AA models forms a tree whose edges span more in deeper layers",
        paper="successive layers attend to wider and wider context windows",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.widening_tree(A),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "From layer 3 to 5 the spans do grow; the few edges of layer 2 reach far back, and in "
            "layer 6 few are left. Edges of half the weight give the same picture."
        ),
        picture="tree",
    ),
)
