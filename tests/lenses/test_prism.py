"""The prism score on shapes that were built by hand, and on shapes that are none."""

from itertools import permutations

import numpy as np
import pytest

from statetrace.groups import group
from statetrace.lenses.parts.prism import assignment, gram, pair_costs, pairings, score, shape
from tests.lenses.shapes import S3, moved, place, prism


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("height", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("pairing", range(6))
def test_exact_prism(pairing: int, height: float, seed: int) -> None:
    means = moved(prism(pairing, height, width=16), seed)
    scores = score(gram(means), S3)
    assert scores.chosen == pairing
    for value in (scores.score, scores.parity, scores.pairing, scores.additive):
        assert value == pytest.approx(1, abs=1e-9)
    assert scores.right_angle == pytest.approx(1, abs=1e-9)
    assert scores.regularity == pytest.approx(1, abs=1e-9)
    measured = shape(gram(means), S3, pairing)
    sides = np.triu_indices(3, 1)
    np.testing.assert_allclose(measured.angles[sides], 120, atol=1e-4)
    np.testing.assert_allclose(measured.line_angles[sides], 60, atol=1e-4)
    scale = measured.within[0] / height
    np.testing.assert_allclose(measured.within, height * scale)
    np.testing.assert_allclose(measured.within_complement, 0, atol=1e-5 * scale)
    np.testing.assert_allclose(measured.between[sides], np.sqrt(3) * scale)


@pytest.mark.parametrize("degrees", [90, 75, 60, 30])
def test_leaning_axis(degrees: float) -> None:
    """Both ends stay the same triangle; the axis leans, and the triangle seen along it shrinks."""
    means = prism(0)
    slope = np.radians(degrees)
    means[S3.odd] += [np.cos(slope), 0, np.sin(slope) - 1]
    scores = score(gram(moved(means, 0)), S3)
    assert scores.chosen == 0
    assert [scores.additive, scores.parity, scores.pairing] == pytest.approx([1, 1, 1])
    assert scores.right_angle == pytest.approx(np.sin(slope) ** 2)
    # One direction of the plane is foreshortened by sin of the slope.
    assert scores.regularity == pytest.approx(2 * np.sin(slope) / (1 + np.sin(slope) ** 2))


@pytest.mark.parametrize("stretch", [1.0, 1.5, 3.0, 10.0])
def test_stretched_triangle(stretch: float) -> None:
    means = prism(2) * [stretch, 1, 1]
    scores = score(gram(moved(means, 1)), S3)
    # Area grows with the stretch, the squared sides are shared equally by both directions.
    assert scores.regularity == pytest.approx(2 * stretch / (1 + stretch**2))
    assert scores.score == pytest.approx(float(scores.regularity))


@pytest.mark.parametrize("uneven", [0.0, 0.2, 0.5])
def test_uneven_heights(uneven: float) -> None:
    means = prism(1)
    means[S3.partners[1, 0], 2] += uneven
    means[S3.partners[1, 1], 2] -= uneven
    scores = score(gram(means), S3)
    parity = 6 * (1 / 2) ** 2
    rest = 4 * (uneven / 2) ** 2  # the two states of two pairs are that much too near or too far
    pairs = 2 * (3 + 2 * (uneven / 2) ** 2)  # the centres of these pairs move as much
    assert scores.parity == pytest.approx(parity / (parity + rest))
    assert scores.pairing == pytest.approx(pairs / (pairs + rest))


def test_six_equal_distances() -> None:
    scores = score(gram(np.eye(6)), S3)
    assert scores.parity == pytest.approx(1 / 3)
    assert scores.pairing == pytest.approx(1 / 2)
    assert scores.additive == pytest.approx(3 / 5)
    assert scores.score == pytest.approx(1 / 6)


@pytest.mark.parametrize(("parity", "pairs", "most"), [(20.0, 0.0, 0.55), (0.0, 20.0, 0.4)])
def test_half_a_prism_is_none(parity: float, pairs: float, most: float) -> None:
    """Parity without pairs, or pairs without parity, on top of six unrelated directions."""
    means = np.eye(6, 9)
    means[:, 6:] += prism(3, 0) * pairs
    means[S3.odd, 8] += parity
    scores = score(gram(means), S3)
    assert scores.additive > 0.95
    assert scores.score < most


def test_degenerate_shapes_have_a_score() -> None:
    assert score(gram(np.zeros((6, 4))), S3).score == 0
    flat = score(gram(prism(0, height=0)), S3)
    assert (flat.score, flat.parity, flat.pairing) == (0, 0, pytest.approx(1))
    line = prism(0) * [1, 0, 1]
    assert score(gram(line), S3).regularity == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["S3", "D4", "Z6", "S4", "Z4"])
def test_batches_and_vectors_agree(name: str) -> None:
    """Gram matrices in a batch against one by one, and the additive share against a regression
    of the vectors themselves on parity and pair."""
    among = pairings(group(name))
    order = 2 * len(among.even)
    means = np.random.default_rng(0).standard_normal((20, order, 5)) + 3
    batch = score(gram(means), among)
    for number, points in enumerate(means):
        alone = score(gram(points), among)
        assert alone.chosen == batch.chosen[number]
        assert alone.score == pytest.approx(batch.score[number])
        partners = among.partners[alone.chosen]
        design = np.zeros((order, 1 + len(partners)))
        design[among.odd, 0] = 1
        for k, (a, b) in enumerate(zip(among.even, partners, strict=True)):
            design[[a, b], 1 + k] = 1
        fit = design @ np.linalg.lstsq(design, points, rcond=None)[0]
        total = ((points - points.mean(axis=0)) ** 2).sum()
        assert alone.additive == pytest.approx(1 - ((points - fit) ** 2).sum() / total)
        # The pairing is the closest one with the parity direction projected away.
        p = points[among.odd].mean(axis=0) - points[among.even].mean(axis=0)
        rest = points - np.outer(points @ p, p) / (p @ p)
        sums = [((rest[among.even] - rest[row]) ** 2).sum() for row in among.partners]
        assert alone.chosen == np.argmin(sums)


@pytest.mark.parametrize(
    ("name", "number"),
    [("S3", 6), ("D3", 6), ("Z6", 3), ("Z4", 2), ("D4", 8), ("S4", 24), ("S5", 120)],
)
def test_pairings(name: str, number: int) -> None:
    """Each is a bijection of even with odd states, made by one odd element from one side."""
    g = group(name)
    among = pairings(g)
    assert len(among.partners) == len(among.by) == len(np.unique(among.partners, axis=0)) == number
    for row, by in zip(among.partners, among.by, strict=True):
        assert sorted(row) == among.odd.tolist()
        before, after = by.split("then")
        factors = [f"{before.strip()},{g.labels[e]},{after.strip()}".strip(",") for e in among.even]
        assert [g.product(pair) for pair in factors] == row.tolist()


def test_s3_has_no_other_pairing() -> None:
    assert {tuple(row) for row in S3.partners.tolist()} == set(permutations(S3.odd.tolist()))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_assignment_against_brute_force(size: int, ties: bool) -> None:
    rng = np.random.default_rng(size)
    for _ in range(20):
        costs = rng.standard_normal((size, size)) * 2
        costs = costs.round() if ties else costs
        chosen = assignment(costs)
        assert sorted(chosen) == list(range(size))
        sums = [costs[range(size), columns].sum() for columns in permutations(range(size))]
        assert costs[range(size), chosen].sum() == pytest.approx(min(sums))


def test_assignment_finds_a_planted_matching() -> None:
    among = pairings(group("S5"))
    spokes = np.random.default_rng(0).standard_normal((60, 20))
    means = place(spokes, np.eye(20)[0], 17, among)
    scores = score(gram(means), among)
    assert scores.chosen == 17
    assert scores.score == pytest.approx(1)
    best = among.odd[assignment(pair_costs(gram(means), among))]
    np.testing.assert_array_equal(best, among.partners[17])
