"""The two readings of one-line labels, against the movement of real objects."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.groups import NOTATIONS, arrange, group
from tests.groups.cases import notations

WORKED = [  # notation, actions, where they lead, what becomes of the letters
    ("moves", ["42315", "12534"], "32514", "DBAEC"),  # the paper, section 2.2 and Figure 1
    ("receives", ["132", "312", "213"], "123", "ABC"),  # its natural-language appendix
    ("receives", ["312"], "312", "CAB"),  # "rotate the last item to the front"
]


@pytest.mark.parametrize(("notation", "actions", "state", "letters"), WORKED)
def test_worked_examples(notation: str, actions: list[str], state: str, letters: str) -> None:
    g = group(f"S{len(state)}", notation)
    objects = list("ABCDE"[: len(state)])
    for action in actions:
        objects = arrange(action, objects, notation)
    assert g.labels[g.product(actions)] == state
    assert "".join(objects) == letters == "".join(arrange(state, sorted(letters), notation))


@pytest.mark.parametrize(("notation", "actions", "state", "letters"), WORKED[:2])
def test_no_reading_gives_both(notation: str, actions: list[str], state: str, letters: str) -> None:
    (other,) = set(NOTATIONS) - {notation}
    g = group(f"S{len(state)}", other)
    assert g.labels[g.product(actions)] != state


@given(st.sampled_from(["S1", "S2", "S4", "S7", "A3", "A6"]), notations, st.data())
def test_products_move_objects_like_their_factors(
    name: str, notation: str, data: st.DataObject
) -> None:
    g = group(name, notation)
    word = data.draw(st.lists(st.sampled_from(g.labels), max_size=6))
    objects = start = list("ABCDEFG"[: int(name[1])])
    for label in word:
        objects = arrange(label, objects, notation)
    assert objects == arrange(g.labels[g.product(word)], start, notation)


@pytest.mark.parametrize("name", ["S3", "S5", "A5", "S3xZ4", "A4xS3"])
def test_inversion_is_an_isomorphism_between_notations(name: str) -> None:
    moves, receives = group(name), group(name, "receives")
    assert moves.labels == receives.labels
    assert not np.array_equal(moves.table, receives.table)
    # A relabelling of the non-permutation factors as well, which is harmless: they are abelian.
    to = moves.inverse
    assert (to[moves.table] == receives.table[to[:, None], to[None, :]]).all()
    if moves.parity is not None:
        assert (moves.parity == receives.parity).all()


@given(st.integers(1, 7), st.data())
def test_the_readings_undo_each_other(n: int, data: st.DataObject) -> None:
    label = "".join(data.draw(st.permutations("1234567"[:n])))
    objects = list(range(n))
    assert arrange(label, arrange(label, objects, "moves"), "receives") == objects


@pytest.mark.parametrize("name", ["Z6", "D4", "Z2xD3"])
def test_other_families_ignore_notation(name: str) -> None:
    assert np.array_equal(group(name).table, group(name, "receives").table)
