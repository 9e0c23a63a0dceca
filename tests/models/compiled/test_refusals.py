"""What cannot be compiled is refused by a sentence that quotes it."""

import pytest

from statetrace.errors import StatetraceError
from statetrace.models.compiled import CompileSpec, compile_model

SPECS = [
    ({"algorithm": "paralel"}, "algorithm 'paralel' is unknown; did you mean 'parallel'"),
    (
        {"algorithm": "scan"},
        "algorithm 'scan' is unknown; use one of sequential, parallel, ",
    ),
    ({"parity": "visible"}, "parity 'visible' is unknown; use one of linear, hidden"),
    ({"counter": "abacus"}, "counter 'abacus' is unknown; use one of selective, average"),
    ({"basis": "skew"}, "basis 'skew' is unknown; use one of plain, random"),
    ({"length": 0}, "length 0 must be a whole number from 1 to 512"),
    ({"length": 513}, "length 513"),
    ({"length": 4.0}, r"length 4\.0"),
    ({"heads": 0}, "heads 0 must be a whole number, 1 or more"),
    ({"before": -1}, "before -1 must be a whole number, 0 or more"),
    ({"between": 1.5}, r"between 1\.5"),
    ({"after": True}, "after True"),
    ({"seed": -3}, "seed -3"),
    ({"reach": 15}, "reach 15 must be from the length, 16,"),
    ({"reach": 2000}, "reach 2000"),
    ({"noise": 1.0}, r"noise 1\.0 must be at least 0 and less than 1"),
    ({"noise": -0.1}, r"noise -0\.1"),
    ({"noise": float("nan")}, "noise nan"),
    ({"sharpness": 0.0}, r"sharpness 0\.0 must be greater than 0 and at most 1000"),
    ({"algorithm": "parallel", "parity": "hidden"}, "parity 'hidden' is for sequential, assoc"),
    (
        {"algorithm": "parity-associative", "parity": "hidden"},
        "in parity-associative parity is always",
    ),
]

GROUPS = [
    ({"group": "A5", "algorithm": "parity-associative"},
     "A5 has no parity distinct from its state.*; use sequential or associative"),
    ({"group": "A4", "algorithm": "parity-associative"},
     "A4 has no parity distinct.*; use sequential, parallel or associative"),
    ({"group": "S2", "algorithm": "parity-associative"}, "S2 has no parity distinct"),
    ({"group": "A5", "algorithm": "parity-only"}, "A5 has no parity.*no parity-only algorithm"),
    ({"group": "S5", "algorithm": "parallel"}, "S5 is not solvable.*perfect subgroup of 60"),
    ({"group": "A5", "algorithm": "parallel"}, "A5 is not solvable"),
    ({"group": "Z60", "algorithm": "parallel"}, r"Z60 has 60 elements, too many.*at most 24"),
    ({"group": "S6"}, r"S6 has 720 elements, too many.*Sn and An with n up to 5"),
    ({"group": "S7", "algorithm": "sequential"}, r"S7 has 5040 elements, too many"),
    ({"group": "A6", "algorithm": "sequential"}, r"A6 has 360 elements, too many"),
    ({"group": "D4", "parity": "hidden"}, "parity cannot be hidden in D4.*everything is readable"),
    ({"group": "Q9"}, "unknown group 'Q9'"),
    ({"notation": "cycles"}, "'cycles'"),
    *(({"algorithm": name, "counter": "selective", "start_marker": False},
       "counter 'selective' attends to the start marker, and there is none")
      for name in ("parallel", "parity-associative")),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), SPECS)
def test_a_spec_that_makes_no_sense(settings, message):
    with pytest.raises(StatetraceError, match=message):
        CompileSpec(**settings)


@pytest.mark.parametrize(("settings", "message"), GROUPS)
def test_a_group_that_has_no_such_model(settings, message):
    spec = CompileSpec(length=4, **settings)
    with pytest.raises(StatetraceError, match=message):
        compile_model(spec)


def test_reach_is_what_can_be_read():
    assert CompileSpec(length=8).positions == 16
    model = compile_model(CompileSpec(length=8, reach=11))
    assert model.config.n_positions == 12  # and the marker
    model = compile_model(CompileSpec(length=8, reach=8, start_marker=False))
    assert (model.config.n_positions, model.config.vocab_size) == (8, 6)
