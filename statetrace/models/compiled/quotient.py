"""Quotient first: the state's image in a quotient is counted or composed, then the rest is scanned.

Let r(c) be a representative of each class c, with the identity for its own class, and q_t the class
of the state s_t. Then e_t = r(q_{t-1}) a_t r(q_t)^-1 lies in the kernel, it can be computed from
a_t and q_t alone, and s_t = e_0 e_1 ... e_t r(q_t).
"""

from __future__ import annotations

from itertools import product

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.models.compiled.circuit import Block, Units
from statetrace.models.compiled.codes import Code, code_for, margin, one_hot_code
from statetrace.models.compiled.counting import count_block
from statetrace.models.compiled.draft import Draft
from statetrace.tasks.folds import Layer, fold_layers


def parity_associative(draft: Draft) -> None:
    """Block 1 counts parity, block 2 maps each action to an even one, the others scan those."""
    quotient = _parity(draft)
    code = code_for(draft.group)
    rest = draft.token_register("complement", code.bits)
    _scan_rest(draft, quotient, code, rest, *_count_parity(draft, quotient))


def parity_only(draft: Draft) -> None:
    """A control that computes parity in block 1 and nothing else."""
    _count_parity(draft, _parity(draft))


def composed_quotient(draft: Draft) -> None:
    """The first blocks scan the quotient, one maps each action to the kernel, the others scan
    those."""
    group, name = draft.group, draft.spec.quotient
    quotient = group.quotient(name) if name else next(iter(group.quotients()), None)
    if quotient is None:
        raise StatetraceError(f"{group.name} has no quotient to compose first; use associative")
    code = code_for(group)
    rest = draft.token_register("complement", code.bits)
    image = one_hot_code(quotient.image)
    action, state = (
        draft.token_register(n, image.bits[quotient.map]) for n in ("class", "quotient")
    )
    draft.read(state, draft.sharpness * image.bits[quotient.map])
    draft.fold(_scan(draft), [(image, state)])
    _scan_rest(draft, quotient, code, rest, action, state)


def _scan(draft: Draft) -> tuple[Layer, ...]:
    return fold_layers("associative", draft.spec.length, positions=draft.spec.positions)


def _scan_rest(
    draft: Draft, quotient: Quotient, code: Code, rest: str, action: str, state: str
) -> None:
    """Map the action that `rest` holds to e_t, and scan. The registers `action` and `state` hold
    the classes of the action and of the state."""
    group, image, at = draft.group, quotient.image, draft.layout.at
    table, classes = group.table.astype(np.int64), quotient.map.astype(np.int64)
    representative = np.unique(classes, return_index=True)[1]
    representative[classes[group.identity]] = group.identity
    units = Units()
    for now, own in product(range(image.order), repeat=2):
        before = representative[image.table[now, image.inverse[own]]]
        after = group.inverse[representative[now]]
        for i, target in enumerate(code.between(int(before), int(after), table)):
            bits = [at(state, now), at(action, own), at(rest, i)]
            units.when(bits, [(at(rest, int(target)), 1.0)])
    for i in range(code.size):
        units.add([(at(rest, i), 1.0)], 0.0, [(at(rest, i), -1.0)])
    draft.blocks.append(Block("complement", units=units))
    draft.fold(_scan(draft), [(code, rest)])
    complement = table[np.arange(group.order), group.inverse[representative[classes]]]
    scale = draft.sharpness / margin(code.bits[np.unique(complement)])
    draft.read(rest, scale * code.bits[complement])


def _parity(draft: Draft) -> Quotient:
    group = draft.group
    if group.parity is None or group.order == 2:
        others = "sequential, parallel or" if group.is_solvable() else "sequential or"
        raise StatetraceError(
            f"{group.name} has no parity distinct from its state, so there is no "
            f"{draft.algorithm} algorithm for it; use {others} associative"
        )
    return group.quotient("parity")


def _count_parity(draft: Draft, quotient: Quotient) -> tuple[str, str]:
    """Add a block that counts parity. Returns the registers of the action's parity and of the
    state's."""
    bits = np.eye(2)[quotient.map]
    action = draft.token_register("class", bits)
    values = [(draft.layout.at(action, i), i) for i in (0, 1)]
    state = count_block(draft, "quotient", values, 2, draft.spec.counts_by)
    draft.read(state, draft.sharpness * bits)
    return action, state
