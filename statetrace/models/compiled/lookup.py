"""A lookup table: one block whose heads fetch all earlier actions and whose MLP has two units for
every prefix.

Cost: |G|^n prefixes for n actions, so up to MOST of them: S3 up to length 5, D4 and A4 up to 4, S4
up to 3.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.models.compiled.circuit import Block, Units
from statetrace.models.compiled.codes import one_hot_code
from statetrace.models.compiled.draft import Draft

MOST = 25_000
"""Rows of the largest table; its model has 50,000 units, and larger ones are slow to analyze."""


def lookup(draft: Draft) -> None:
    """Position t has a table of its own for its t + 1 actions; later positions than the length
    share that of the last `length` actions."""
    group, length, at = draft.group, draft.spec.length, draft.layout.at
    rows = group.order**length
    if rows > MOST:
        longest = int(np.log(MOST) / np.log(group.order))
        raise StatetraceError(
            f"a lookup table for {group.name} at length {length} has {rows:,} rows, too many (at "
            f"most {MOST:,}); use length {longest} or less"
        )
    code = one_hot_code(group)
    slots = [draft.token_register("action", code.bits)]
    here, heads = np.arange(draft.places), []
    for back in range(1, length):
        slots.append(draft.layout.add(f"action {back} back", group.order))
        sources = np.where(here - draft.offset >= back, here - back, here)
        heads.append(draft.shift(sources, [(slots[0], slots[-1])]))
    state = draft.layout.add("state", group.order)
    units = Units()
    positions = [at("position", t) for t in range(draft.places)]
    for size in range(1 - draft.offset, length + 1):  # the marker has a table for no actions
        own = draft.offset + size - 1
        place, earlier = ([positions[own]], []) if size < length else ([], positions[:own])
        for actions in product(range(group.order), repeat=size):
            bits = [at(slots[back], action) for back, action in enumerate(reversed(actions))]
            write = [(at(state, group.product(actions)), 1.0)]
            units.when([*bits, *place], write, unless=earlier)
    draft.blocks.append(Block("lookup", heads, units))
    draft.read(state, draft.sharpness * code.bits)
