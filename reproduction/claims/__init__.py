"""All claims of the paper that have a number, in its order; a file per part of it."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims import (
    attention,
    choice,
    curricula,
    deletions,
    geometry,
    learning,
    losses,
    patching,
    probing,
    reaching,
    shapes,
    stages,
    text,
    theory,
    trees,
)

PARTS: dict[str, tuple[Claim, ...]] = {
    theory.TITLE: theory.CLAIMS,
    patching.TITLE: patching.CLAIMS + deletions.CLAIMS,
    probing.TITLE: probing.CLAIMS,
    geometry.TITLE: geometry.CLAIMS + text.CLAIMS + shapes.CLAIMS,
    attention.TITLE: attention.CLAIMS + trees.CLAIMS,
    learning.TITLE: reaching.CLAIMS + learning.CLAIMS + losses.CLAIMS,
    choice.TITLE: choice.CLAIMS,
    curricula.TITLE: curricula.CLAIMS + stages.CLAIMS,
}
CLAIMS = tuple(claim for claims in PARTS.values() for claim in claims)
