"""Means, permuted labels, axes and separation against loops, theory and numpy."""

import numpy as np
import pytest

from statetrace.groups import group
from statetrace.lenses.parts import state_means as sm


@pytest.mark.parametrize(
    ("notation", "label", "where"), [("moves", "312", [2, 0, 1]), ("receives", "312", [1, 2, 0])]
)
def test_where_objects_are(notation: str, label: str, where: list[int]) -> None:
    g = group("S3", notation)
    at = sm.arrangements(g)
    state = g.index(label)
    assert [int(at[f"object {k + 1}"][state]) for k in range(3)] == where
    assert [int(at[f"position {k + 1}"][state]) for k in range(3)] == np.argsort(where).tolist()


@pytest.mark.parametrize(
    ("name", "ways"), [("S4", 8), ("A4", 8), ("A3", 0), ("D4", 0), ("Z6", 0), ("S3xZ2", 0)]
)
def test_only_permutations_are_arrangements(name: str, ways: int) -> None:
    assert len(sm.arrangements(group(name))) == ways


def test_means_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    points, states = rng.standard_normal((50, 4)), rng.integers(0, 5, 50)
    states[states == 2] = 3
    means = sm.state_means(points, states, 5)
    for state in (0, 1, 3, 4):
        mine = points[states == state]
        np.testing.assert_allclose(means.means[state], mine.mean(axis=0))
        assert means.within[state] == pytest.approx(mine.var(axis=0).sum())
    assert means.visited.tolist() == [0, 1, 3, 4]
    assert np.isnan(means.means[2]).all()
    assert np.isnan(means.within[2])
    between = means.between_share * points.var(axis=0).sum() * len(points)
    assert between == pytest.approx(means.between)


def test_permuted_labels() -> None:
    """Expected size by theory; chunks and points do not change how labels are dealt."""
    rng = np.random.default_rng(0)
    points, states = (
        rng.standard_normal((90, 5)) + 100,
        rng.permutation(np.repeat(range(6), [5, 10, 15, 20, 20, 20])),
    )
    chunks = list(sm.permuted_grams(points, states, 2000, seed=1))
    grams, between = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    assert grams.shape == (2000, 6, 6)
    assert np.abs(grams.sum(axis=-1)).max() < 1e-4
    total = points.var(axis=0).sum() * 90
    assert between.mean() / total == pytest.approx(5 / 89, rel=0.05)
    assert len(np.unique(between.round(6))) > 1900
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sm, "_NUMBERS_AT_ONCE", 90 * 7)
        again = list(sm.permuted_grams(points, states, 20, seed=1))
    assert [len(part) for part, _ in again] == [7, 7, 6]
    np.testing.assert_allclose(np.concatenate([part for part, _ in again]), grams[:20], atol=1e-5)


def test_separation_is_honest() -> None:
    """In many dimensions the means of noise always differ; new points must not be fooled."""
    rng = np.random.default_rng(0)
    points, classes = rng.standard_normal((400, 300)), np.tile([0, 1], 200)[rng.permutation(400)]
    noise = sm.separation(points, classes, 2)
    assert abs(noise.accuracy - 0.5) < 0.1
    assert abs(noise.d_prime) < 0.5
    points[:, 7] += 6 * classes
    separated = sm.separation(points, classes, 2)
    assert separated.accuracy > 0.95
    assert 3 < separated.d_prime < 6.5
    assert np.isnan(sm.separation(points, np.zeros(400, dtype=np.int64), 2).accuracy)


def test_principal_axes_against_svd() -> None:
    points = np.random.default_rng(0).standard_normal((60, 7)) * np.arange(1, 8) + 5
    axes, explained = sm.principal_axes(points, 3)
    _, values, vectors = np.linalg.svd(points - points.mean(axis=0))
    np.testing.assert_allclose(explained, values[:3] ** 2 / (values**2).sum())
    np.testing.assert_allclose(np.abs((axes * vectors[:3]).sum(axis=1)), 1)
