"""Errors quote the bad value and say what would do, in one sentence."""

from collections.abc import Callable

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import Group, arrange, group

UNKNOWN = "use Sn, An, Zn or Dn"
TOO_LARGE = "up to 5040 elements"

NAMES = [
    *((name, UNKNOWN) for name in ("", "S0", "Q7", "S3x", "xS3", "S", "5", "S-1", "S03", "S3.5")),
    *((name, UNKNOWN) for name in (" S3", "S3 x Z2", "S3*Z2", "S3xxZ2", "S³", "Z٣", "ſ3", "S3\n")),
    *((name, TOO_LARGE) for name in ("S8", "A8", "Z5041", "D2521", "S6xS4", "S7xZ2")),
    *((name, TOO_LARGE) for name in ("S1000000000", "Z" + "9" * 5000, "x".join(["Z2"] * 999))),
]


def _complaint(call: Callable[[], object]) -> str:
    with pytest.raises(StatetraceError) as error:
        call()
    message = str(error.value)
    assert "\n" not in message
    assert ". " not in message.replace("... ", "")
    return message


@pytest.mark.parametrize(("name", "hint"), NAMES, ids=[repr(name)[:20] for name, _ in NAMES])
def test_bad_names(name: str, hint: str) -> None:
    message = _complaint(lambda: group(name))
    assert repr(name) in message
    assert hint in message


@pytest.mark.parametrize(
    ("call", "bad", "hint"),
    [
        (lambda: group("S3", "cycles"), "'cycles'", "'moves' (object i moves to position a[i])"),
        (lambda: group("Z3", ""), "''", "'receives' (position j receives object a[j])"),
        (lambda: arrange("123", "ABC", "code"), "'code'", "'moves'"),
        (lambda: arrange("124", "ABC"), "'124'", "each digit of '123' exactly once"),
        (lambda: arrange("12", "ABC"), "'12'", "each digit of '123' exactly once"),
        (lambda: group("S3").index("124"), "'124'", "are 123, 132, 213, 231, 312, 321"),
        (lambda: group("S5").index("x"), "'x'", "12345, 12354, 12435, 12453, 12534"),
        (lambda: group("S5").index("x"), "'x'", "(120 in all)"),
        (lambda: group("S3").product("123,99"), "'99'", "are 123, 132"),
        (lambda: group("S3").product([0, 6]), " 6;", "use 0 to 5, or a label such as '321'"),
        (lambda: group("S3").product([-1]), " -1;", "use 0 to 5"),
        (lambda: group("S3").product([1.0]), " 1.0;", "use 0 to 5"),
        (lambda: group("S3").product(3), "3 is not", "such as ['321']"),
        (lambda: Group.from_table(3), "3 is not", "such as [[0, 1], [1, 0]]"),
        (lambda: Group.from_table([1, 0]), "[1, 0] is not", "one row"),
        (lambda: group("S3").subgroup(["132", "r1"]), "'r1'", "are 123, 132"),
        (lambda: group("S3").generators("swaps"), "'swaps'", "'all' and 'transpositions'"),
        (lambda: group("S3").generators("132,132"), "'132,132'", "different labels"),
        (lambda: group("S3").generators([]), "[]", "at least one"),
        (lambda: group("A4").generators("transpositions"), "A4", "use Sn with n from 2 to 7"),
        (lambda: group("S1").generators("transpositions"), "S1", "use Sn with n from 2 to 7"),
        (lambda: group("S3xZ2").generators("transpositions"), "S3xZ2", "or 'all'"),
        (
            lambda: group("S4").quotient("S3").image.generators("transpositions"),
            "S3",
            "or labels separated by commas",
        ),
        (lambda: group("S4").quotient("Z3"), "'Z3'", "its quotients are parity, S3"),
        (lambda: group("D4xZ3").quotient("z"), "'z'", "Z6.1, Z6.2, Z6.3, D4, Z2xZ6"),
        (lambda: group("Z5040").quotient("z"), "'z'", "are parity, Z3, Z4"),
        (lambda: group("Z5040").quotient("z"), "'z'", "(58 in all)"),
        (lambda: group("A5").quotient("parity"), "'parity'", "it has none besides itself and Z1"),
        (lambda: group("S3").quotient_by("123,132"), "123, 132", "normal_subgroups()"),
        (lambda: group("S3").quotient_by("123,231"), "123, 231", "normal_subgroups()"),
        (lambda: group("S3").quotient_by([]), "empty", "normal_subgroups()"),
        (
            lambda: group("x".join(["Z2"] * 12)).normal_subgroups(),
            "'Z2xZ2xZ2xZ2xZ2xZ2xZ2xZ2xZ2xZ2xZ2xZ2'",
            "at most 256",
        ),
        (
            lambda: Group("odd", "moves", ("a", "a"), np.zeros((2, 2), np.uint8), None),
            "'odd' has 2 labels, 1 of them different",
            "use different labels",
        ),
        (
            lambda: Group("flat", "moves", ("a", "b"), np.zeros((2, 1), np.uint8), None),
            "shape (2, 1)",
            "one for each row and column",
        ),
    ],
)
def test_bad_requests(call: Callable[[], object], bad: str, hint: str) -> None:
    message = _complaint(call)
    assert bad in message
    assert hint in message
