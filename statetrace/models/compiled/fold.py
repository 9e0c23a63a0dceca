"""Folds: a product per position, to which each block appends an earlier one."""

from __future__ import annotations

import numpy as np

from statetrace.groups import Group
from statetrace.models.compiled.codes import Code, code_for, margin, one_hot_code
from statetrace.models.compiled.draft import Draft
from statetrace.tasks.folds import fold_layers


def fold(draft: Draft) -> None:
    """The sequential, associative, strided or chunked algorithm (tasks/folds.py), with a sign
    register beside the state if parity should be readable."""
    spec, group = draft.spec, draft.group
    code = code_for(group, hides_parity=spec.parity == "hidden")
    registers = [(code, draft.token_register("state", code.bits))]
    draft.read("state", draft.sharpness / margin(code.bits) * code.bits)
    if spec.parity == "linear" and group.parity is not None and not _shows_parity(code, group):
        sign = one_hot_code(group.quotient("parity").image)
        bits = np.eye(2)[group.parity.astype(np.int64)]
        registers.append((sign, draft.token_register("sign", bits)))
    draft.fold(fold_layers(draft.algorithm, spec.length, spec.stride, spec.positions), registers)


def _shows_parity(code: Code, group: Group) -> bool:
    """Whether parity is a linear function of the code."""
    assert group.parity is not None
    with_one = np.column_stack([code.bits, np.ones(group.order)])
    weights = np.linalg.lstsq(with_one, group.parity.astype(np.float64), rcond=None)[0]
    return bool(np.allclose(with_one @ weights, group.parity, atol=1e-6))
