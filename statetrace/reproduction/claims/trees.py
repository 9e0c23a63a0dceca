"""Section 4.5 and appendix F, further: sparse attention, local heads, and how clean the tree is."""

from __future__ import annotations

from statetrace.reproduction import of_trees as lens
from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from statetrace.reproduction.kept import A, P
from statetrace.reproduction.rules import AtLeast, AtMost

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="sparser",
        where="§4.5",
        says=(
            "Attention of AA models gets sparser with depth: it is spread over fewer tokens in the "
            "deeper half"
        ),
        paper="sparser",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.deeper_attention(A),
        rule=AtMost(1),
        picture="sparse",
        ours=True,
        stand_in=ZOO_A,
    ),
    Claim(
        name="tree-thins",
        where="Figure 16, §4.5, App. F",
        says="The tree has fewer edges in deeper layers",
        paper="sparser",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.thinning(A),
        rule=AtMost(-0.5),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "Edges that lead to the last answer alone are counted; such a tree thins towards it in "
            "any case, so the row says less than the one before it."
        ),
        noted="",
        general=True,
        picture="tree",
    ),
    Claim(
        name="tree-unclean",
        where="Figure 16, App. F",
        says="The tree is not clean: some edges are redundant and some cross",
        paper="both",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.unclean(A),
        rule=AtLeast(2),
        stand_in=ZOO_A,
        note_at_size=(
            "Redundant edges there are. None cross: those of one layer have nearly the same span "
            "here, so they run side by side. In the zoo's AA model some cross. Of each model one "
            "tree is kept, where the paper shows three."
        ),
        picture="tree",
    ),
    Claim(
        name="heads-local",
        where="Figure 15, App. F",
        says=(
            "Parity heads can be local: one of the best looks mostly at one part of the sequence, "
            "such as its middle or its end (most of it at one third)"
        ),
        paper="two of three heads",
        recipe=f"{PAPER}/figure-15-parity-heads.toml",
        measure=lens.local_head(P),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=ZOO_P,
        picture="parity-heads",
    ),
)
