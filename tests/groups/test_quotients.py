"""Every quotient map is a homomorphism onto what its name says."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.groups import Group, Quotient, group
from statetrace.groups.recognise import recognise
from tests.groups.cases import Case, cases, each_case, named, small_names


def check(g: Group, quotient: Quotient) -> None:
    image = quotient.image
    onto = quotient.map
    assert onto.shape == (g.order,)
    assert np.array_equal(onto[g.table], image.table[onto[:, None], onto[None, :]])
    assert quotient.kernel == tuple(np.flatnonzero(onto == image.identity).tolist())
    # Onto, and every element of the image is hit by as many elements.
    assert np.bincount(onto, minlength=image.order).tolist() == [len(quotient.kernel)] * image.order
    assert image.order * len(quotient.kernel) == g.order
    with pytest.raises(ValueError, match="read-only"):
        onto[0] = 0


@each_case
def test_quotients_of_the_shared_table(case: Case) -> None:
    g = case.group
    assert tuple(quotient.name for quotient in g.quotients()) == case.quotients
    for quotient in g.quotients():
        check(g, quotient)
        assert 1 < len(quotient.kernel) < g.order
        assert g.quotient(quotient.name) is quotient
        assert quotient.name in ("parity", quotient.image.name) or (
            quotient.name.startswith(f"{quotient.image.name}.")
        )
    kernels = {quotient.kernel for quotient in g.quotients()}
    assert kernels == set(g.normal_subgroups()[1:-1])
    check(g, g.abelianization())
    assert g.abelianization().image.is_abelian()


@given(small_names())
def test_quotients_of_random_products(name: str) -> None:
    g = group(name)
    names = [quotient.name for quotient in g.quotients()]
    assert len(set(names)) == len(names)
    assert not any(" " in label for q in g.quotients() for label in (q.name, *q.image.labels))
    for quotient in g.quotients():
        check(g, quotient)


@given(cases, st.data())
def test_a_quotient_of_a_product_is_the_product_of_quotients(
    case: Case, data: st.DataObject
) -> None:
    g = case.group
    quotient = data.draw(st.sampled_from([g.abelianization(), *g.quotients()]))
    word = data.draw(st.lists(st.integers(0, g.order - 1), max_size=8))
    assert quotient.map[g.product(word)] == quotient.image.product(quotient.map[word].tolist())


@each_case
def test_parity_is_the_first_quotient(case: Case) -> None:
    g = case.group
    if case.parity and g.order > 2:
        first = g.quotients()[0]
        assert first.name == "parity"
        assert first.image.labels == ("even", "odd")
        assert np.array_equal(first.map, g.parity)
    else:
        assert "parity" not in [quotient.name for quotient in g.quotients()]


def isomorphic(g: Group, h: Group) -> bool:
    """By trying every image of a pair or triple of generators."""
    everything = range(g.order)
    for size in range(4):
        generators = next((c for c in permutations(everything, size) if g.generates(c)), None)
        if generators is not None:
            return any(_extends(g, h, generators, to) for to in product(everything, repeat=size))
    raise AssertionError(f"{g.name} needs more than three generators")


def _extends(g: Group, h: Group, generators: tuple[int, ...], to: tuple[int, ...]) -> bool:
    image = {g.identity: h.identity}
    queue = [g.identity]
    for a in queue:
        for s, t in zip(generators, to, strict=True):
            b, c = int(g.table[a][s]), int(h.table[image[a]][t])
            if image.setdefault(b, c) != c:
                return False
            if len(image) > len(queue):
                queue.append(b)
    return len(set(image.values())) == g.order == h.order


@pytest.mark.parametrize(
    ("source", "image"),
    [
        ("S4", "S3"),
        ("S4xZ2", "S4"),
        ("A4xZ2", "A4"),
        ("D8", "D4"),
        ("D10", "D5"),
        ("S3xS3", "D6.1"),
        ("Z4xZ4", "Z2xZ4.1"),
        ("Z6xZ6", "Z6.1"),
        ("Q8", "Z2xZ2"),
    ],
)
def test_images_are_what_they_are_called(source: str, image: str) -> None:
    assert isomorphic(named(source).quotient(image).image, group(image.split(".")[0]))


@pytest.mark.parametrize("name", ["S3xZ1", "A4xZ1", "S4xZ1", "D6xZ1", "Z2xZ6xZ1"])
def test_the_whole_group_is_recognised_too(name: str) -> None:
    g = group(name)
    assert g.quotient_by([g.identity]).image.name == name.removesuffix("xZ1")


@pytest.mark.parametrize("name", ["S5", "S6", "S7", "A5", "A6", "A7", "D50", "Z100"])
def test_larger_groups_are_recognised(name: str) -> None:
    g = group(name)
    assert g.quotient_by([g.identity], "same").image.name == name


def test_a_group_without_a_cyclic_half_is_not_called_dihedral() -> None:
    """Pairs of permutations of three things with equal sign: as many involutions as D9 has."""
    g, sign = group("S3xS3"), group("S3").parity
    members = np.flatnonzero(np.equal.outer(sign, sign).ravel())
    table = np.searchsorted(members, g.table[np.ix_(members, members)])
    assert np.count_nonzero(np.diagonal(table) == 0) == 1 + 9
    assert recognise(table) is None


def test_quotient_by_a_subgroup_of_ones_own() -> None:
    g = group("S4")
    klein = g.quotient_by("1234,2143,3412,4321")
    assert klein == g.quotient("S3")
    assert klein.image.labels == ("[1234]", "[1243]", "[1324]", "[1342]", "[1423]", "[1432]")
    assert g.quotient_by(range(24), "nothing").image.name == "Z1"


def test_parity_needs_no_list_of_all_quotients() -> None:
    g = group("Z2xZ3xZ3xZ3xZ3xZ3")
    check(g, g.quotient("parity"))
    with pytest.raises(ValueError, match="more than 256 normal subgroups"):
        g.quotients()
