"""All claims of the paper that have a number, in its order; a file per part of it."""

from __future__ import annotations

from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims import (
    attention,
    choice,
    curricula,
    geometry,
    learning,
    patching,
    probing,
    theory,
)

PARTS: dict[str, tuple[Claim, ...]] = {
    part.TITLE: part.CLAIMS
    for part in (theory, patching, probing, geometry, attention, learning, choice, curricula)
}
CLAIMS = tuple(claim for claims in PARTS.values() for claim in claims)
