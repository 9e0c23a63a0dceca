"""The parity-associative algorithm: count parity, then scan the rest of the state."""

from __future__ import annotations

import numpy as np

from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.models.compiled.circuit import Block, Units
from statetrace.models.compiled.codes import code_for, margin
from statetrace.models.compiled.counting import count_block
from statetrace.models.compiled.draft import Draft
from statetrace.models.compiled.scan import scan


def parity_associative(spec: CompileSpec, group: Group) -> Draft:
    """Block 1 counts parity, block 2 maps each action to an even one, the others scan those.

    Let r(even) be the identity, r(odd) some odd element and p_t the parity of s_t. Then
    e_t = r(p_{t-1}) a_t r(p_t)^-1 is even, and s_t = e_0 e_1 ... e_t r(p_t).
    """
    _check_parity(spec, group)
    code = code_for(group)
    draft = Draft(spec, group)
    kappa = draft.token_register("complement", code.bits)
    odd, parity = _count_parity(draft)
    table = group.table.astype(np.int64)
    representative = _representatives(group)

    units = Units()
    for now in (0, 1):
        for action in (0, 1):
            before = representative[(now + action) % 2]
            after = group.inverse[representative[now]]
            moved = code.between(int(before), int(after), table)
            for i, target in enumerate(moved):
                bits = [
                    draft.layout.at(parity, now),
                    draft.layout.at(odd, action),
                    draft.layout.at(kappa, i),
                ]
                units.when(bits, [(draft.layout.at(kappa, int(target)), 1.0)])
    for i in range(code.size):
        bit = draft.layout.at(kappa, i)
        units.add([(bit, 1.0)], 0.0, [(bit, -1.0)])
    draft.blocks.append(Block("complement", units=units))

    scan(draft, [(code, kappa)])
    assert group.parity is not None
    rest = table[np.arange(group.order), group.inverse[representative[group.parity]]]
    scale = spec.sharpness / margin(code.bits[np.unique(rest)])
    draft.read(kappa, scale * code.bits[rest])
    return draft


def parity_only(spec: CompileSpec, group: Group) -> Draft:
    """A control that computes parity in block 1 and nothing else."""
    _check_parity(spec, group)
    draft = Draft(spec, group)
    _count_parity(draft)
    return draft


def _check_parity(spec: CompileSpec, group: Group) -> None:
    if group.parity is None or group.order == 2:
        others = "sequential, parallel or" if group.is_solvable() else "sequential or"
        raise StatetraceError(
            f"{group.name} has no parity distinct from its state, so there is no "
            f"{spec.algorithm} algorithm for it; use {others} associative"
        )


def _count_parity(draft: Draft) -> tuple[str, str]:
    """Add a block that counts parity, after all other registers that tokens set. Returns the
    registers of the action's parity and of the state's."""
    group, spec = draft.group, draft.spec
    assert group.parity is not None
    bits = np.eye(2)[group.parity.astype(np.int64)]
    odd = draft.token_register("odd action", bits)
    values = [(draft.layout.at(odd, i), i) for i in (0, 1)]
    parity = count_block(draft, "parity", values, 2, spec.counts_by)
    draft.read(parity, spec.sharpness * bits)
    return odd, parity


def _representatives(group: Group) -> np.ndarray:
    """[2]: the identity, and the first odd element."""
    assert group.parity is not None
    return np.array([group.identity, int(np.flatnonzero(group.parity)[0])])
