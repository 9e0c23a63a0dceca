"""Groups from tables, permutations, matrices and files: checked, and equal to the named ones."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.errors import StatetraceError
from statetrace.groups import Group, group
from statetrace.groups.recognise import recognise
from tests.groups.cases import quaternions, small_names

UNIT_I, UNIT_J = [[1j, 0], [0, -1j]], [[0, 1], [-1, 0]]
LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
"""A Latin square with identity and inverses that is not a group: there is one of order 5, Z5."""


@pytest.mark.parametrize("notation", ["moves", "receives"])
@pytest.mark.parametrize(
    ("name", "generators"),
    [("S3", ["213", (2, 3, 1)]), ("A4", [(1, 0, 3, 2), "2314"]), ("S5", ["21345", "23451"])],
)
def test_permutations_generate_the_named_groups(
    name: str, generators: list[object], notation: str
) -> None:
    assert Group.from_permutations(generators, name, notation=notation) == group(name, notation)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (Group.from_matrices([[[0, 1], [1, 0]]]), "Z2"),
        (Group.from_matrices([[[1, 1], [0, 1]], [[1, 0], [1, 1]]], 2), "S3"),
        (Group.from_matrices([[[0.5, -(3**0.5) / 2], [3**0.5 / 2, 0.5]]]), "Z6"),
        (Group.from_generators([[[0, -1], [1, 0]], [[1, 0], [0, -1]]]), "D4"),
        (Group.from_generators([["2", "1", "3"], "231"]), "S3"),
    ],
)
def test_matrices_generate(made: Group, name: str) -> None:
    assert recognise(made.table) == name


def test_quaternions() -> None:
    for made in (
        Group.from_matrices({"i": UNIT_I, "j": UNIT_J}, name="Q8"),
        Group.from_matrices([[[0, 1], [2, 0]], [[1, 1], [1, 2]]], 3, name="Q8"),
    ):
        quotients = [quotient.name for quotient in made.quotients()]
        assert quotients == [quotient.name for quotient in quaternions().quotients()]
        assert (made.order, made.labels[0], made.parity) == (8, "e", None)
    assert Group.from_matrices({"i": UNIT_I, "j": UNIT_J}).labels[:4] == ("e", "i", "j", "ii")
    assert Group.from_matrices({"up": UNIT_I, "on": UNIT_J}).labels[4] == "up.on"


@given(small_names())
def test_a_table_gives_the_group_back(name: str) -> None:
    known = group(name)
    made = Group.from_table(known.table.tolist(), known.name, known.labels, parity=_choice(known))
    assert made == known
    assert made.table.dtype == known.table.dtype
    assert (made.parity is None) == (known.parity is None)
    labelled = [[known.labels[entry] for entry in row] for row in known.table]
    assert Group.from_table(labelled, name, known.labels).table.tolist() == known.table.tolist()


@given(small_names(), st.data())
def test_one_wrong_entry_is_refused(name: str, data: st.DataObject) -> None:
    table = group(name).table.astype(int)
    order = len(table)
    if order < 3:
        return
    row, column = (data.draw(st.integers(0, order - 1)) for _ in range(2))
    table[row, column] = (table[row, column] + data.draw(st.integers(1, order - 1))) % order
    with pytest.raises(StatetraceError, match="does not define a group"):
        Group.from_table(table)


def test_files_give_the_group_back(tmp_path: Path) -> None:
    for known in (quaternions(), group("D4"), group("S3", "receives"), group("A4xZ5")):
        file = tmp_path / "deeper" / "it.json"
        known.save(file)
        loaded = Group.load(file)
        assert loaded == known
        assert np.array_equal(loaded.parity, known.parity)  # type: ignore[arg-type]
    (tmp_path / "a4.json").write_text('{"generators": ["2143", "2314"]}')
    assert Group.load(tmp_path / "a4.json").name == "a4"


def _choice(known: Group) -> list[int] | None:
    return None if known.parity is None else known.parity.tolist()


TABLE = {"table": [[0, 1], [1, 0]]}


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda: Group.from_table(np.zeros((3, 3), int)), "0 then 1 is 0"),
        (
            lambda: Group("z", "moves", ("a", "b"), np.zeros((2, 2), np.uint8), None),
            "a then b is a",
        ),
        (lambda: Group.from_table([[0, 1], [1, 7]]), "1 then 1 is 7"),
        (lambda: Group.from_table([[0, 1], [1, 1]]), "1 has no inverse"),
        (
            lambda: Group.from_table(LOOP, labels="eabcd"),
            "(a then a) then b is b, but a then (a then b) is d",
        ),
        (lambda: Group.from_table([[0, 1], [1]]), "2 rows of [1, 2]"),
        (lambda: Group.from_table([["e", "b"], ["a", "e"]], labels="ea"), "'b'"),
        (lambda: Group.from_table([[0.0, 1.5], [1.5, 0.0]]), "float64"),
        (lambda: Group.from_table([[0]], labels=["a b"]), "'a b'"),
        (lambda: Group.from_table(TABLE["table"], parity=[1, 0]), "[1, 0]"),
        (lambda: Group.from_table([]), "0 elements"),
        (lambda: Group.from_permutations(["2133"]), "'2133'"),
        (lambda: Group.from_permutations(["213", "21"]), "213 and 21"),
        (lambda: Group.from_permutations([]), "0 generators"),
        (lambda: Group.from_permutations(["23451678", "21345678"], limit=100), "more than 100"),
        (lambda: Group.from_matrices([[[1, 1], [0, 1]]]), "more than 5040"),
        (lambda: Group.from_matrices([[[1, 0], [0, 0]]], 3), "[[1, 0], [0, 0]]"),
        (lambda: Group.from_matrices([[[1, 0]]]), "[[1, 0]]"),
        (lambda: Group.from_matrices([[[1.5]]], 3), "whole numbers"),
        (lambda: Group.from_matrices([[[1]]], 1), "modulus 1"),
    ],
)
def test_what_is_not_a_group_is_refused(call: Callable[[], object], quoted: str) -> None:
    with pytest.raises(StatetraceError) as raised:
        call()
    assert quoted in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        (json.dumps(TABLE | {"generators": ["21"]}), "either"),
        (json.dumps(TABLE | {"lables": ["a", "b"]}), "'lables'"),
        (json.dumps({"table": [[0, 1], [1, 1]]}), "1 has no inverse"),
        (json.dumps({"table": 5}), "bad.json"),
    ],
)
def test_bad_files_are_refused(text: str, quoted: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(StatetraceError, match="bad") as raised:
        group(tmp_path / "bad.json")
    assert quoted in str(raised.value)
