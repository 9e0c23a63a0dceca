"""Every table is a group's, and it is the group that its labels say."""

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.groups import Group, group
from tests.groups.cases import Case, cases, each_case, notations, small_names


@each_case
def test_table_is_a_latin_square_with_identity_and_inverses(case: Case) -> None:
    g = case.group
    everything = np.arange(case.order)
    assert g.order == case.order == len(g.labels)
    assert (np.sort(g.table, axis=0) == everything[:, None]).all()
    assert (np.sort(g.table, axis=1) == everything).all()
    assert (g.table[g.identity] == everything).all()
    assert (g.table[:, g.identity] == everything).all()
    assert (g.table[everything, g.inverse] == g.identity).all()
    assert (g.table[g.inverse, everything] == g.identity).all()


@given(small_names() | st.sampled_from(["S5", "A6", "D60", "Z720"]), notations, st.data())
def test_associative(name: str, notation: str, data: st.DataObject) -> None:
    g = group(name, notation)
    a, b, c = (data.draw(st.integers(0, g.order - 1)) for _ in range(3))
    assert g.table[g.table[a][b]][c] == g.table[a][g.table[b][c]]


@given(cases, st.data())
def test_product_is_a_fold_and_inverts(case: Case, data: st.DataObject) -> None:
    g = case.group
    word = data.draw(st.lists(st.integers(0, g.order - 1), max_size=8))
    cut = data.draw(st.integers(0, len(word)))
    assert g.product(word) == g.table[g.product(word[:cut])][g.product(word[cut:])]
    assert g.product([*word, *(int(g.inverse[a]) for a in reversed(word))]) == g.identity
    assert g.product([g.labels[a] for a in word]) == g.product(np.array(word, dtype=np.int64))


def _compute(name: str, a: str, b: str) -> str:
    """a then b, from the meaning of the labels alone."""
    if "x" in name:
        parts = zip(name.split("x"), a.split(":"), b.split(":"), strict=True)
        return ":".join(_compute(*part) for part in parts)
    family, n = name[0], int(name[1:])
    if family == "Z":
        return str((int(a) + int(b)) % n)
    if family in "SA":
        return "".join(b[int(digit) - 1] for digit in a)

    def move(label: str, x: int) -> int:
        return (x if label[0] == "r" else -x) + int(label[1:])

    start, step = (move(b, move(a, x)) for x in (0, 1))
    return f"{'r' if step > start else 's'}{start % n}"


@given(
    st.sampled_from(["S4", "S7", "A5", "Z12", "Z300", "D1", "D2", "D7", "D130"])
    | st.sampled_from(["A4xZ5", "S3xZ2xZ2", "D4xS3", "Z1xZ256", "Z256xZ1", "Z16xZ17"]),
    st.data(),
)
def test_table_is_what_the_labels_mean(name: str, data: st.DataObject) -> None:
    g = group(name)
    a, b = (data.draw(st.integers(0, g.order - 1)) for _ in range(2))
    assert g.labels[g.table[a][b]] == _compute(name, g.labels[a], g.labels[b])


@pytest.mark.parametrize("n", range(1, 8))
def test_symmetric_and_alternating_labels_are_in_lexicographic_order(n: int) -> None:
    one_line = ["".join(p) for p in permutations("1234567"[:n])]
    inversions = {
        label: sum(a > b for i, a in enumerate(label) for b in label[i:]) for label in one_line
    }
    assert group(f"S{n}").labels == tuple(one_line)
    assert group(f"A{n}").labels == tuple(label for label in one_line if inversions[label] % 2 == 0)
    if n >= 2:
        assert group(f"S{n}").parity.tolist() == [inversions[label] % 2 for label in one_line]


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("S3", "123", "321"),
        ("Z12", "0", "11"),
        ("D3", "r0", "s2"),
        ("S3xZ2", "123:0", "321:1"),
        ("Z2xZ3xD1", "0:0:r0", "1:2:s0"),
    ],
)
def test_labels(name: str, first: str, last: str) -> None:
    g = group(name)
    assert (g.labels[0], g.labels[-1], g.identity) == (first, last, 0)
    assert [g.index(label) for label in g.labels] == list(range(g.order))
    assert not any(set(label) & set(" ,|&;()$") for label in g.labels)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("S5", np.uint8), ("Z256", np.uint8), ("Z257", np.uint16), ("A7", np.uint16)],
)
def test_table_has_the_smallest_dtype_and_cannot_be_written(name: str, dtype: type) -> None:
    g = group(name)
    assert g.table.dtype == g.inverse.dtype == dtype
    for array in (g.table, g.inverse):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_groups_are_values() -> None:
    assert group("S4") is group("s4", notation="moves")
    assert group("s3Xz2").name == "S3xZ2"
    assert group("S4") != group("S4", "receives")
    original = group("D4")
    copy = Group("D4", "moves", original.labels, original.table.copy(), original.parity)
    other = Group("D4", "moves", original.labels, group("Z8").table.copy(), None)
    assert copy == original
    assert hash(copy) == hash(original)
    assert other != original
    assert repr(group("S5")) == "Group(name='S5', notation='moves')"


@pytest.mark.parametrize("name", ["S7", "A7xZ2", "Z5040", "D2520", "S6xZ7"])
def test_the_largest_groups_have_5040_elements(name: str) -> None:
    assert group(name).order == 5040
    assert group(name).table.nbytes == 2 * 5040**2


def test_groups_need_no_torch() -> None:
    code = "import sys, statetrace.groups as g; g.group('S3').quotients(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" in ran.stdout.split()
    assert "torch" not in ran.stdout.split()
