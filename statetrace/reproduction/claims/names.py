"""Recipes and models that many claims name."""

from __future__ import annotations

from statetrace.reproduction.kept import A, P

PAPER = "recipes/paper"
ZOO_A, ZOO_P = (f"recipes/zoo/{name}.toml" for name in (A, P))
SMALL, REGIMES = "recipes/studies/small.toml", "recipes/studies/small-regimes.toml"
BOTH = ("small", "small-regimes")
"""Their folders in results/."""
SCRATCH, S5 = "scratch", "small-s5"
"""Folders of recipes/studies/scratch.toml, which is of the paper's size, and of small S5 models."""
