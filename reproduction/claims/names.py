"""Recipes and models that many claims name."""

from __future__ import annotations

from reproduction.model_selection import A, P

PAPER = "recipes/paper"
ZOO_A, ZOO_P = (f"recipes/zoo/{name}.toml" for name in (A, P))
SMALL, REGIMES = "recipes/studies/small.toml", "recipes/studies/small-regimes.toml"
BOTH = ("small", "small-regimes")
"""Their folders in results/."""
SCRATCH = "scratch"
"""The folder of recipes/studies/scratch.toml, which is of the paper's size."""
S5_STUDIES = ("small-s5", "small-groups", "tiny-s5")
"""Folders of studies with small models of S5."""

SAME_START = (
    "These began with the same weights and differ in the order of their data alone, so that "
    "nothing else can bring a difference about."
)

TAUGHT = (
    "The model is PAA by its verdict and its probes, but it was taught parity before the state, on "
    "four actions of S5 alone, and its patching and its cutoffs do not look PAA (rows s5-patching "
    "and s5-generalization). A PAA model of S5 that found parity by itself is not in results/."
)
"""What there is of S5."""
TAUGHT_TOO = "The model was taught parity first (note on s5-clusters)."

FEW = (
    "Six models of each family were trained at the paper's size, to a fourteenth of its steps; "
    "more would decide, and take GPU hours that were not at hand ([how many](docs/scale.md))."
)
PRETRAINED = "Pretrained weights were not at hand."
"""Why rows are not reached."""
