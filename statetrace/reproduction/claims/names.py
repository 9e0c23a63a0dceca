"""Recipes and models that many claims name."""

from __future__ import annotations

PAPER = "recipes/paper"
A, P = "s3-associative", "s3-parity-associative"
"""Models of the zoo, one of each mechanism."""
PAA_ZOO = (P, "s3-no-marker", "s3-rotary")
"""All of the zoo that are parity-associative."""
ZOO_A, ZOO_P = (f"recipes/zoo/{name}.toml" for name in (A, P))
SMALL, REGIMES = "recipes/studies/small.toml", "recipes/studies/small-regimes.toml"
BOTH = ("small", "small-regimes")
"""Their folders in results/."""
