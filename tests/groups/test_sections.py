"""Sections: the image of an element changes, its rest does not."""

import numpy as np
import pytest

from statetrace.groups import group
from statetrace.groups.sections import sections

NUMBERS = {
    # complements times two orders, fewer where these coincide
    ("S3", "parity"): 6,
    ("S4", "parity"): 12,
    ("S4", "S3"): 8,
    ("S5", "parity"): 20,
    ("A4", "Z3"): 8,
    ("Z6", "Z3"): 1,
    ("Z4", "parity"): 0,
    ("D4", "Z2xZ2"): 0,
}


@pytest.mark.parametrize(("name", "of"), NUMBERS)
def test_only_the_image_changes(name, of):
    states = group(name)
    quotient = states.quotient(of)
    ways = sections(states, quotient)
    assert len(ways) == NUMBERS[name, of]
    everything, image = np.arange(states.order), quotient.map.astype(int)
    for way in ways:
        assert (image[way.change] == np.arange(quotient.image.order)).all()
        assert (way.change[everything, image] == everything).all()
        assert (way.rest[way.change] == way.rest[:, None]).all()
        together = {(way.rest[s], image[s]) for s in everything}
        assert len(together) == states.order  # rest and image determine the element


def test_those_of_s3_are_all_pairings_of_even_and_odd():
    states = group("S3")
    ways = sections(states, states.quotient("parity"))
    even = np.flatnonzero(states.parity == 0)
    assert len({tuple(way.change[even, 1]) for way in ways}) == 6
