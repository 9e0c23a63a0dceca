"""The sequential and the associative algorithm: a register per position, composed by blocks."""

from __future__ import annotations

import numpy as np

from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import Group
from statetrace.models.compiled.codes import Code, code_for, margin, one_hot_code
from statetrace.models.compiled.draft import Draft


def sequential(spec: CompileSpec, group: Group) -> Draft:
    """Block l multiplies the state before action l with that action, at its position only."""
    draft, registers = _states(spec, group)
    number = draft.action_number()
    for layer in range(1, spec.length):
        draft.compose(f"action {layer}", 1, number == layer, registers)
    return draft


def associative(spec: CompileSpec, group: Group) -> Draft:
    """Block l composes the products of the last 2^(l-1) actions into those of the last 2^l."""
    draft, registers = _states(spec, group)
    scan(draft, registers)
    return draft


def scan(draft: Draft, registers: list[tuple[Code, str]]) -> None:
    """The doubling blocks for registers that hold the factors."""
    number = draft.action_number()
    distance = 1
    while distance < draft.spec.length:
        draft.compose(f"last {2 * distance}", distance, number >= distance, registers)
        distance *= 2


def _states(spec: CompileSpec, group: Group) -> tuple[Draft, list[tuple[Code, str]]]:
    """A draft with the state register, and a sign register if parity should be readable."""
    code = code_for(group, hides_parity=spec.parity == "hidden")
    draft = Draft(spec, group)
    registers = [(code, draft.token_register("state", code.bits))]
    draft.read("state", spec.sharpness / margin(code.bits) * code.bits)
    if spec.parity == "linear" and group.parity is not None and not _shows_parity(code, group):
        sign = one_hot_code(group.quotient("parity").image)
        bits = np.eye(2)[group.parity.astype(np.int64)]
        registers.append((sign, draft.token_register("sign", bits)))
    return draft, registers


def _shows_parity(code: Code, group: Group) -> bool:
    """Whether parity is a linear function of the code."""
    assert group.parity is not None
    with_one = np.column_stack([code.bits, np.ones(group.order)])
    weights = np.linalg.lstsq(with_one, group.parity.astype(np.float64), rcond=None)[0]
    return bool(np.allclose(with_one @ weights, group.parity, atol=1e-6))
