"""Section 4.5 and appendix F, further: sparse attention, local heads, and how clean the tree is."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from reproduction.measures import attention_trees as lens
from reproduction.model_selection import A, P
from reproduction.rules import AtLeast, AtMost

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="sparser",
        where="§4.5",
        says=(
            "Attention of AA models gets sparser with depth: it is spread over fewer tokens in the "
            "deeper half"
        ),
        paper="sparsify in later layers",
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
        paper="sparsify in later layers, forming a tree-like pattern",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.thinning(A),
        rule=AtMost(-0.5),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "Few layers make for a wide interval. Edges that lead to the "
            "last answer alone are counted; such a tree thins towards it in any case, so the row "
            "says less than the one before it."
        ),
        noted="",
        general=True,
        picture="tree",
    ),
    Claim(
        name="tree-unclean",
        where="Figure 16, App. F",
        says="The tree is not clean: some edges are redundant and some cross",
        paper="redundant edges and edges that cross over each other",
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
        name="tree-settings",
        where="Figure 16, App. F",
        says=(
            "Trees are of edges of a weight above 0.95 that are among the top 3 of their target "
            "and the top 10 of their source, on three prompts"
        ),
        paper="0.95, top-3, top-10, three sample prompts",
        recipe=f"{PAPER}/figure-16-attention-tree.toml",
        measure=lens.tree_settings(A),
        rule=AtLeast(1),
        stand_in=ZOO_A,
        note="Of the prompts one tree was kept to be drawn; the other rows' numbers are of all.",
        noted="",
        general=True,
    ),
    Claim(
        name="heads-local",
        where="Figure 15, App. F",
        says=(
            "Parity heads can be local: one of the best looks mostly at one third of the sequence, "
            "such as its middle or its end"
        ),
        paper="can be local (two of three heads)",
        recipe=f"{PAPER}/figure-15-parity-heads.toml",
        measure=lens.local_head(P),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=ZOO_P,
        picture="parity-heads",
    ),
)
