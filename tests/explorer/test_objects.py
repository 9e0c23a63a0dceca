"""Objects move as the group multiplies."""

import pytest

from statetrace.explorer.objects import movements, why_not
from statetrace.groups import arrange, group


@pytest.mark.parametrize("notation", ["moves", "receives"])
@pytest.mark.parametrize("name", ["S2", "S3", "S4", "A4", "Z5", "D4", "D7", "S5"])
def test_one_movement_after_the_other_is_the_movement_of_the_product(name, notation):
    of = group(name, notation)
    moves = movements(of)
    assert len(set(moves)) == of.order
    for a in range(of.order):
        for b in range(0, of.order, 7 if of.order > 50 else 1):
            then = tuple(moves[b][place] for place in moves[a])
            assert then == moves[of.table[a, b]]


def test_rows_are_those_of_the_paper():
    of = group("S5")
    row = [""] * 5
    for place, thing in zip(movements(of)[of.index("32514")], "ABCDE", strict=True):
        row[place] = thing
    assert "".join(row) == "DBAEC" == "".join(arrange("32514", "ABCDE"))


@pytest.mark.parametrize("name", ["Z60", "S3xZ2", "D12", "Z1"])
def test_other_groups_say_that_they_move_nothing(name):
    of = group(name)
    assert movements(of) is None
    assert why_not(of).startswith(f"the elements of {name} ({of.labels[0]}")
