"""Classes, subgroups, commutators and parity: textbook numbers, and brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statetrace.groups import Group, group
from tests.groups.cases import Case, cases, each_case, small_names


def closure(g: Group, elements: set[int]) -> set[int]:
    """The generated subgroup the slow way: multiply until nothing new appears."""
    reached = {g.identity}
    while (more := reached | {int(g.table[a][b]) for a in reached for b in elements}) != reached:
        reached = more
    return reached


@each_case
def test_conjugacy_classes(case: Case) -> None:
    g = case.group
    classes = g.conjugacy_classes()
    assert len(classes) == case.classes
    assert sorted(a for members in classes for a in members) == list(range(g.order))
    everything = np.arange(g.order)
    for members in classes:
        for a in (members[0], members[-1]):
            conjugates = g.table[g.table[g.inverse, a], everything]
            assert set(conjugates.tolist()) == set(members)


@given(cases, st.data())
def test_subgroup_against_brute_force(case: Case, data: st.DataObject) -> None:
    g = case.group
    elements = data.draw(st.lists(st.integers(0, g.order - 1), max_size=3))
    expected = closure(g, set(elements))
    assert g.subgroup(elements) == tuple(sorted(expected))
    assert g.generates(elements) == (len(expected) == g.order)


@each_case
def test_normal_subgroups(case: Case) -> None:
    g = case.group
    subgroups = g.normal_subgroups()
    assert len(subgroups) == len(set(subgroups)) == case.normal
    assert subgroups[0] == (g.identity,)
    assert subgroups[-1] == tuple(range(g.order))
    for subgroup in subgroups:
        members = set(subgroup)
        assert g.subgroup(subgroup) == subgroup
        assert all(members >= set(c) or not members & set(c) for c in g.conjugacy_classes())


@given(small_names())
def test_normal_subgroups_against_brute_force(name: str) -> None:
    """A union of classes is a normal subgroup when it is closed: try every union."""
    g = group(name)
    rest = [set(c) for c in g.conjugacy_classes() if g.identity not in c]
    assume(len(rest) < 10)
    expected = set()
    for size in range(len(rest) + 1):
        for chosen in combinations(rest, size):
            members = sorted({g.identity}.union(*chosen))
            if set(g.table[np.ix_(members, members)].ravel().tolist()) == set(members):
                expected.add(tuple(members))
    assert set(g.normal_subgroups()) == expected


@each_case
def test_derived_series_and_abelianization(case: Case) -> None:
    g = case.group
    assert tuple(len(members) for members in g.derived_series()) == case.derived
    assert g.is_solvable() == (case.derived[-1] == 1)
    assert g.abelian_invariants() == case.abelian
    assert g.is_abelian() == (np.prod(case.abelian) == g.order)
    assert len(g.commutator_subgroup()) * np.prod(case.abelian) == g.order


@given(small_names())
def test_commutator_subgroup_against_brute_force(name: str) -> None:
    g = group(name)
    a, b = np.indices(g.table.shape)
    commutators = g.table[g.table[g.inverse[a], g.inverse[b]], g.table[a, b]]
    assert g.commutator_subgroup() == tuple(sorted(closure(g, set(commutators.ravel().tolist()))))


@pytest.mark.parametrize(
    ("name", "invariants"),
    [
        ("Z6xZ4", (2, 12)),
        ("Z2xZ3xZ5", (30,)),
        ("Z8xZ4xZ2", (2, 4, 8)),
        ("Z9xZ3xZ2", (3, 18)),
        ("D6xD5", (2, 2, 2)),
        ("A4xA4", (3, 3)),
        ("Z1xA5", ()),
    ],
)
def test_abelian_invariants_of_products(name: str, invariants: tuple[int, ...]) -> None:
    assert group(name).abelian_invariants() == invariants


@each_case
def test_parity_exists_where_the_rule_says(case: Case) -> None:
    g = case.group
    halves = [members for members in g.normal_subgroups() if 2 * len(members) == g.order]
    assert (g.parity is not None) == case.parity
    assert case.parity == (len(halves) == 1 or case.name in ("D2", "D4", "D6"))
    if g.parity is not None:
        assert (g.parity[g.table] == g.parity[:, None] ^ g.parity[None, :]).all()
        assert g.parity.sum() == g.order / 2
        with pytest.raises(ValueError, match="read-only"):
            g.parity[0] = 1


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 9])
def test_reflections_are_odd(n: int) -> None:
    g = group(f"D{n}")
    assert [label for label, odd in zip(g.labels, g.parity, strict=True) if odd] == [
        f"s{k}" for k in range(n)
    ]


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("S3", "transpositions", ["132", "213", "321"]),
        ("S2", "transpositions", ["21"]),
        ("D3", "s1,r1", ["s1", "r1"]),
        ("Z5", ["4", 2], ["4", "2"]),
        ("Z2xZ2", np.array([3, 1]), ["1:1", "0:1"]),
        ("Z3", "all", ["0", "1", "2"]),
    ],
)
def test_generators(name: str, kind: object, labels: list[str]) -> None:
    g = group(name)
    assert [g.labels[i] for i in g.generators(kind)] == labels


@pytest.mark.parametrize("n", range(2, 8))
def test_transpositions_generate(n: int) -> None:
    g = group(f"S{n}")
    chosen = g.generators("transpositions")
    assert len(chosen) == n * (n - 1) // 2
    assert g.generates(chosen)
    assert all(g.table[a][a] == g.identity and g.parity[a] == 1 for a in chosen)
