"""Section 4.3 and appendices C and D: the shape of states."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, TAUGHT, ZOO_A, ZOO_P
from reproduction.measures import geometry as shapes
from reproduction.measures import prisms, s5
from reproduction.model_selection import PAA_ZOO, A, P
from reproduction.rules import AtLeast, AtMost, Inside, Near

TITLE = "Geometry and natural language (§4.3, Figures 4 and 11 to 14, App. C to E)"


def _right(prism: prisms.Prism) -> tuple[float, str]:
    words = f"1 is a right angle; prism score {prism['score']:.2f}, by chance {prism['null']:.2f}"
    return prism["right_angle"], words


def _equidistant(prism: prisms.Prism) -> tuple[float, str]:
    within = prism["within_distance"]
    said = " ".join(f"{distance:.1f}" for distance in within)
    return max(within) / min(within), f"largest by smallest; distances {said}"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="prism-angles",
        where="Figure 4, §4.3",
        says="The six states of a PAA model form a triangular prism with spokes 60° apart",
        paper="spaced 60 degrees apart",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=prisms.angles(P, A),
        rule=AtMost(10),
        ours=True,
        stand_in=ZOO_P,
        note=(
            "Three spokes around an axis are 120° apart when seen from it; what is 60° apart are "
            "the lines that they lie on, without a direction, which is how the paper's number is "
            "read here. Angles alone say little: those of the AA model's last layer would do, "
            "though its states form no prism. Rows about the prism therefore ask for one: a score "
            "of at least one half that permuted states seldom reach. Why this step and length: of "
            "the Pythia that other rows look into, geometry was kept at an earlier step alone, on "
            "sequences as long as it knew by then."
        ),
        noted="",
        general=True,
        picture="prisms",
    ),
    Claim(
        name="prism-orthogonal",
        where="Figure 4, §4.3",
        says="Its parity direction is orthogonal to the plane of the three pairs",
        paper="two orthogonal directions",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=prisms.shape(P, _right),
        rule=AtLeast(0.95),
        ours=True,
        stand_in=ZOO_P,
        picture="prism",
    ),
    Claim(
        name="prism-equidistant",
        where="Figure 4",
        says="The two states of each pair are as far apart as those of the others",
        paper="equidistant",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=prisms.shape(P, _equidistant),
        rule=AtMost(1.2),
        ours=True,
        stand_in=ZOO_P,
        picture="prism",
    ),
    Claim(
        name="prism-all",
        where="App. D",
        says="All PAA models of S3 show the triangular prism",
        paper="in all of them",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=prisms.share_of_prisms(PAA_ZOO),
        rule=Inside(1, least=3),
        ours=True,
        stand_in=ZOO_P,
        picture="prisms",
    ),
    Claim(
        name="prism-pairings",
        where="App. D",
        says="They do not agree in which states are paired",
        paper="no consistency in which states were paired",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=prisms.pairings(PAA_ZOO),
        rule=AtLeast(2, least=3),
        stand_in=ZOO_P,
        picture="prisms",
    ),
    Claim(
        name="aa-variance",
        where="Figure 11, App. C.3",
        says=(
            "Three components explain 41.8% of the variance of an AA model's last layer "
            "in which parity is not linear"
        ),
        paper="41.8%",
        recipe=f"{PAPER}/figure-11-parity-not-linear.toml",
        measure=shapes.last_variance(A, linear=False),
        rule=Near(0.418, 0.1),
        stand_in=ZOO_A,
        note=(
            "Of the AA models of S3 in results/ none hides parity from a probe of the last layer: "
            "in that of the paper's size it is linear ([aa-linear-variance](#aa-linear-variance)), "
            "the zoo's small one lies between the two and does not count."
        ),
        noted="",
        general=True,
        picture="last-layer",
    ),
    Claim(
        name="aa-linear-variance",
        where="Figure 12, App. C.3",
        says=(
            "In another AA model parity is linear in the last layer, with 49.9% in three components"
        ),
        paper="49.9%",
        recipe=f"{PAPER}/figure-12-parity-linear.toml",
        measure=shapes.last_variance(A, linear=True),
        rule=Near(0.499, 0.1),
        stand_in=ZOO_A,
        note="A difference in width changes how much three components can hold.",
        picture="last-layer-linear",
    ),
    Claim(
        name="s5-clusters",
        where="Figure 13, App. D",
        says="The states of a PAA model of S5 form 4 clusters, by the position of 1",
        paper="4 distinct clusters",
        recipe=f"{PAPER}/figure-13-s5-geometry.toml",
        measure=s5.clusters,
        note=(
            "Not counted: activations along parity and two directions chosen beside it, in which "
            "the paper sees its clusters, were not kept. What was, a share of all that separates "
            f"the states, does not show that they go by where one object is. {TAUGHT}"
        ),
        noted="",
        picture="s5-clusters",
    ),
)
