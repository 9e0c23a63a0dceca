"""Character tables: textbook degrees, orthogonality, and projections done the slow way."""

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import Group, group
from statetrace.groups.characters import MAX_CLASSES, characters, isotypic_shares
from tests.groups.cases import Case, each_case, named

SMALL = ["Z2", "S3", "Z7", "A4", "D4", "Q8", "S4", "S3xZ5"]  # with complex ones and without


def project(g: Group, row: int, f: np.ndarray, side: str) -> np.ndarray:
    """The isotypic projection by its definition, h acting from one side."""
    table = characters(g)
    values = table.table[row][table.class_of].conj()
    result = np.zeros(f.shape, dtype=np.complex128)
    for h in range(g.order):
        back = g.inverse[h]
        moved = g.table[back] if side == "left" else g.table[:, back]  # h^-1 g or g h^-1
        result += values[h] * f[moved]
    return table.degrees[row] / g.order * result


@each_case
def test_orthogonality(case: Case) -> None:
    g, table = case.group, characters(case.group)
    sizes = np.array([len(members) for members in table.classes])
    assert table.classes == g.conjugacy_classes()
    assert table.table.shape == (case.classes, case.classes)
    eye = np.eye(case.classes)
    np.testing.assert_allclose(
        (table.table * sizes) @ table.table.conj().T / g.order, eye, atol=1e-9
    )
    columns = table.table.conj().T @ table.table * sizes / g.order
    np.testing.assert_allclose(columns, eye, atol=1e-9)
    assert sum(d * d for d in table.degrees) == g.order
    assert all(g.order % d == 0 for d in table.degrees)
    assert table.degrees.count(1) == np.prod(case.abelian)
    assert list(table.degrees) == sorted(table.degrees)
    assert len(set(table.names)) == len(table.names)


@pytest.mark.parametrize(
    ("name", "degrees"),
    [
        ("S3", [1, 1, 2]),
        ("S4", [1, 1, 2, 3, 3]),
        ("A4", [1, 1, 1, 3]),
        ("S5", [1, 1, 4, 4, 5, 5, 6]),
        ("A5", [1, 3, 3, 4, 5]),
        ("S6", [1, 1, 5, 5, 5, 5, 9, 9, 10, 10, 16]),
        ("A7", [1, 6, 10, 10, 14, 14, 15, 21, 35]),
        ("S7", [1, 1, 6, 6, 14, 14, 14, 14, 15, 15, 20, 21, 21, 35, 35]),
        ("D7", [1, 1, 2, 2, 2]),
        ("D6", [1, 1, 1, 1, 2, 2]),
        ("Z60", [1] * 60),
        ("A4xZ5", [1] * 15 + [3] * 5),
        ("A5xZ2", [1, 1, 3, 3, 3, 3, 4, 4, 5, 5]),
        ("Q8", [1, 1, 1, 1, 2]),
    ],
)
def test_textbook_degrees(name: str, degrees: list[int]) -> None:
    assert list(characters(named(name)).degrees) == degrees


def test_values_of_a5() -> None:
    golden = (1 + np.sqrt(5)) / 2
    values = characters(group("A5")).table
    assert sorted(values[1].real.round(9)) == sorted(np.round([3, 0, -1, golden, 1 - golden], 9))
    assert sorted(values[1].real) == sorted(values[2].real)
    assert not values.imag.any()


@pytest.mark.parametrize(
    ("left", "right"), [("A4", "Z5"), ("S3", "S4"), ("D4", "Z3"), ("S3", "S3")]
)
def test_product_has_the_products(left: str, right: str) -> None:
    """Two roads: the table of a product group is the Kronecker product of the tables."""
    a, b, both = (characters(group(name)) for name in (left, right, f"{left}x{right}"))
    ours = both.table[:, both.class_of]
    theirs = np.kron(a.table[:, a.class_of], b.table[:, b.class_of])
    apart = np.abs(ours[:, None] - theirs[None, :]).max(axis=-1)
    np.testing.assert_array_equal((apart < 1e-9).sum(axis=0), 1)
    np.testing.assert_array_equal((apart < 1e-9).sum(axis=1), 1)


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "S6", "D5", "D4", "Z6", "S3xZ5"])
def test_sign_is_parity(name: str) -> None:
    g, table = group(name), characters(group(name))
    assert table.names[:2] == ("trivial", "sign")
    assert g.parity is not None
    np.testing.assert_array_equal(table.table[1][table.class_of], 1 - 2.0 * g.parity)
    np.testing.assert_array_equal(table.table[0], 1)


@pytest.mark.parametrize("name", ["A4", "A5", "Z7", "Q8", "S3xZ2"])
def test_no_sign_without_parity(name: str) -> None:
    assert "sign" not in characters(named(name)).names


@pytest.mark.parametrize("notation", ["moves", "receives"])
@pytest.mark.parametrize("n", [4, 5, 6])
def test_where_an_object_is_comes_first_of_its_degree(n: int, notation: str) -> None:
    """The character of "4a" of S5 is the number of fixed objects less one."""
    g = group(f"S{n}", notation)
    table = characters(g)
    row = table.names.index(f"{n - 1}a")
    rest = g.labels[g.identity]
    fixed = [sum(a == b for a, b in zip(label, rest, strict=True)) - 1 for label in g.labels]
    np.testing.assert_allclose(table.table[row][table.class_of], fixed)


@pytest.mark.parametrize(
    ("name", "components"),
    [
        ("Z7", ["1a+1a*", "1b+1b*", "1c+1c*"]),
        ("A4", ["1a+1a*", "3a"]),
        ("Z4", ["sign", "1a+1a*"]),
        ("S5", ["sign", "4a", "4b", "5a", "5b", "6a"]),
        ("Z1", []),
    ],
)
def test_components_of_real_functions(name: str, components: list[str]) -> None:
    parts = characters(group(name)).components()
    assert [part.name for part in parts] == components
    assert sum(part.dimension for part in parts) == group(name).order - 1


@pytest.mark.parametrize("name", ["S5", "Z60", "A4xZ5", "D6"])
def test_computed_twice_it_is_the_same(name: str) -> None:
    once, again = characters.__wrapped__(group(name)), characters.__wrapped__(group(name))
    assert once.names == again.names
    np.testing.assert_array_equal(once.table, again.table)
    assert not once.table.flags.writeable


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", SMALL)
def test_shares_against_projections(name: str, side: str) -> None:
    g = named(name)
    f = np.random.default_rng(0).standard_normal((g.order, 3)) + 5
    total = ((f - f.mean(axis=0)) ** 2).sum()
    slow = [
        sum((np.abs(project(g, row, f, side)) ** 2).sum() for row in part.irreps) / total
        for part in characters(g).components()
    ]
    shares = isotypic_shares(g, f)
    np.testing.assert_allclose(shares, slow, atol=1e-10)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["S4", "A4", "Q8", "Z7"])
def test_function_of_one_representation(name: str, side: str) -> None:
    g = named(name)
    f = np.random.default_rng(1).standard_normal((g.order, 2))
    for number, part in enumerate(characters(g).components()):
        planted = sum(project(g, row, f, side) for row in part.irreps)
        assert np.abs(planted.imag).max() < 1e-10
        expected = np.eye(len(characters(g).components()))[number]
        np.testing.assert_allclose(isotypic_shares(g, planted.real), expected, atol=1e-10)


@pytest.mark.parametrize("name", ["S4", "A5", "D6", "A4xZ5"])
def test_translations_change_no_share(name: str) -> None:
    g = group(name)
    f = np.random.default_rng(2).standard_normal((g.order, 4))
    h = g.order // 2
    for moved in (g.table[h], g.table[:, h]):
        np.testing.assert_allclose(isotypic_shares(g, f[moved]), isotypic_shares(g, f), atol=1e-10)


def share_of(name: str, f: np.ndarray) -> dict[str, float]:
    names = [part.name for part in characters(group(name)).components()]
    return dict(zip(names, isotypic_shares(group(name), f).round(9).tolist(), strict=True))


def test_parity_and_waves() -> None:
    s5, z12 = group("S5"), group("Z12")
    assert share_of("S5", s5.parity[:, None] * np.array([3.0, -1.0]))["sign"] == 1
    x = np.arange(12)
    for frequency in (1, 2, 3):
        wave = np.stack([np.cos(2 * np.pi * frequency * x / 12), 0.3 * (x * 0 + 1)], axis=1)
        shares = share_of("Z12", wave)
        row = z12.order // frequency  # the period, by which the right one is told
        (chosen,) = [name for name, share in shares.items() if share == 1]
        irrep = characters(z12).names.index(chosen.split("+")[0])
        turns = characters(z12).table[irrep]
        assert abs(turns[row % 12] - 1) < 1e-9
        assert all(abs(turns[k] - 1) > 1e-3 for k in range(1, row))


def test_noise_spreads_over_dimensions() -> None:
    g = group("S4")
    rng = np.random.default_rng(3)
    mean = np.mean([isotypic_shares(g, rng.standard_normal((24, 50))) for _ in range(40)], axis=0)
    expected = [part.dimension / 23 for part in characters(g).components()]
    np.testing.assert_allclose(mean, expected, atol=0.01)


def test_a_constant_has_no_shares() -> None:
    assert np.isnan(isotypic_shares(group("S3"), np.ones((6, 4)))).all()


def test_errors() -> None:
    with pytest.raises(StatetraceError, match=r"\(5, 3\) are not a function .* its 6 elements"):
        isotypic_shares(group("S3"), np.zeros((5, 3)))
    with pytest.raises(StatetraceError, match=f"Z1001 has 1001 .* at most {MAX_CLASSES}"):
        characters(group("Z1001"))
