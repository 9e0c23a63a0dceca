"""A score for the paper's triangular prism (end of section 4.2): state = parity part + pair part.

In the paper the six states of S3 are the corners of a prism: parity is its axis, three clusters of
one even and one odd state are spokes around it, and *which* states pair up differs between models.
Here the best pairing is determined and the shape is measured.

Everything is computed from the Gram matrix of the state means (their inner products, [S, S] for S
states), which determines lengths and angles. Leading dimensions are batches, so that a thousand
permuted labellings are scored in one call.

With p the difference of the parity means, c_k the centre of pair k, and the variance between the
states divided as in a two-way table, SS = SS_parity + SS_pair + SS_rest, the score is a product
of factors between 0 and 1:

    parity      SS_parity / (SS_parity + SS_rest)   parity is the same offset for every pair
    pairing     SS_pair / (SS_pair + SS_rest)       apart from parity, the states of a pair are
                equal
    right angle sin² of the angle between p and the plane of the spokes c_k
    regularity  4 √3 area / (sum of squared sides) of the triangle of spokes seen along p; 1 only
                for three equal spokes at 120° (as undirected lines: the paper's 60°)

The last two apply to three pairs; with more, the score is the product of the first two. It is 1 for
an exact right prism and 1/6 for six equidistant states. Parity without pairs (pairing near 1/2;
more if noise has few dimensions, as the best of six pairings is taken) and pairs without parity
(parity near 1/3) score far below 1.

Candidate pairings: every even state g with "g then t", or with "t then g", for one odd element t.
For S3 these are all six pairings; for S5 they are 120 of 60!, those that respect the group
structure. `assignment` finds the best of all pairings, for comparison.

Cost: S3, a thousand Gram matrices: 10 ms; S5: 0.3 s.
Caveat: all states must be visited, and the group must have a parity. Permuted labels are a null for
"the points do not encode the state". Distinct states at random places pass it at the 5% level in 4%
of cases in 16 dimensions and in 16% in three; consider the score itself, which was below 0.45
in all of these cases.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.groups import Group

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pairings:
    """The candidate pairings. K pairs of one even and one odd state, Q pairings.

    Attributes:
        even, odd: [K], the states of each parity.
        partners: [Q, K], the odd state paired with even[k].
        by: the rule of a pairing, such as "then 213" (g with g then 213) or "213 then".
    """

    even: NDArray[np.int64]
    odd: NDArray[np.int64]
    partners: NDArray[np.int64]
    by: tuple[str, ...]


@dataclass(frozen=True)
class Scores:
    """The factors of the score, each with the batch shape of the Gram matrices.

    Attributes:
        additive: SS_parity + SS_pair as a share of SS.
        right_angle, regularity: None unless there are three pairs.
        chosen: index of the pairing with the smallest distances in the complement of p.
    """

    score: Array
    parity: Array
    pairing: Array
    right_angle: Array | None
    regularity: Array | None
    additive: Array
    chosen: NDArray[np.int64]


@dataclass(frozen=True)
class ShapeStatistics:
    """Lengths and angles of one set of state means under one pairing of K pairs.

    Attributes:
        within: [K], distance of the two states of a pair.
        within_complement: [K], the same without the parity direction: 0 in a prism.
        between: [K, K], distances of the centres of pairs in the complement.
        angles: [K, K], degrees between spokes as vectors: 120 in a prism of three pairs.
        line_angles: [K, K], the same between undirected lines, at most 90: 60 in a prism.
    """

    within: Array
    within_complement: Array
    between: Array
    angles: Array
    line_angles: Array


def pairings(group: Group) -> Pairings:
    """The pairings by multiplication with an odd element; the group must have a parity."""
    assert group.parity is not None
    even, odd = np.flatnonzero(group.parity == 0), np.flatnonzero(group.parity == 1)
    unique: dict[bytes, tuple[NDArray[np.int64], str]] = {}
    for t in odd:
        for partners, by in (
            (group.table[even, t], f"then {group.labels[t]}"),
            (group.table[t, even], f"{group.labels[t]} then"),
        ):
            row = partners.astype(np.int64)
            unique.setdefault(row.tobytes(), (row, by))  # in an abelian group both are equal
    rows = [row for row, _ in unique.values()]
    return Pairings(even, odd, np.stack(rows), tuple(by for _, by in unique.values()))


def gram(means: NDArray[Any]) -> Array:
    """Inner products of state means [..., S, D] about their centroid: [..., S, S]."""
    values = np.asarray(means, dtype=np.float64)
    values = values - values.mean(axis=-2, keepdims=True)
    return np.asarray(values @ np.swapaxes(values, -1, -2))


def parity_direction(grams: Array, among: Pairings) -> tuple[Array, Array]:
    """|p|² [...] and the inner products of the states with p [..., S]."""
    contrast = np.zeros(grams.shape[-1])
    contrast[among.odd], contrast[among.even] = 1 / len(among.odd), -1 / len(among.even)
    along = grams @ contrast
    return along @ contrast, along


def complement(grams: Array, among: Pairings) -> Array:
    """Gram matrices of the states without the direction of p."""
    length, along = parity_direction(grams, among)
    along_p = along[..., :, None] * along[..., None, :]
    return grams - _ratio(along_p, length[..., None, None])


def pair_costs(grams: Array, among: Pairings) -> Array:
    """Squared distances in the complement between even (rows) and odd states: [..., K, K]."""
    length, along = parity_direction(grams, among)
    squares = np.diagonal(grams, axis1=-2, axis2=-1)
    inner = grams[..., among.even[:, None], among.odd[None, :]]
    distance = squares[..., among.even, None] + squares[..., None, among.odd] - 2 * inner
    along_p = (along[..., among.even, None] - along[..., None, among.odd]) ** 2
    return distance - _ratio(along_p, length[..., None, None])


def score(grams: Array, among: Pairings) -> Scores:
    """Score Gram matrices [..., S, S], each under its best pairing."""
    pairs = len(among.even)
    column = np.empty(2 * pairs, dtype=np.int64)
    column[among.odd] = np.arange(pairs)
    cells = (np.arange(pairs) * pairs + column[among.partners]).ravel()  # [Q * K]
    costs = pair_costs(grams, among).reshape(*grams.shape[:-2], pairs * pairs)
    totals = costs.take(cells, axis=-1).reshape(*grams.shape[:-2], -1, pairs).sum(axis=-1)
    chosen = totals.argmin(axis=-1)  # [...], of Q
    length, along = parity_direction(grams, among)
    everything = np.trace(grams, axis1=-2, axis2=-1)
    of_parity = pairs / 2 * length
    flat = grams.reshape(*grams.shape[:-2], -1)
    partners = among.partners[chosen]  # [..., K]
    inner = np.take_along_axis(flat, among.even * 2 * pairs + partners, axis=-1)
    of_pairs = everything / 2 + inner.sum(axis=-1)  # 2 |c|² = |a|² / 2 + |b|² / 2 + a·b
    left = np.maximum(everything - of_parity - of_pairs, 0.0)
    parity, pairing = _ratio(of_parity, of_parity + left), _ratio(of_pairs, of_pairs + left)
    result = parity * pairing
    right_angle = regularity = None
    if pairs == 3:
        tilt = (along[..., among.even] + np.take_along_axis(along, partners, axis=-1)) / 2
        inverse = np.linalg.pinv(_spokes(grams, among, chosen), rcond=1e-10, hermitian=True)
        in_plane = np.einsum("...i,...ij,...j->...", tilt, inverse, tilt)
        right_angle = np.clip(1 - _ratio(in_plane, length), 0.0, 1.0) * (length > 0)
        regularity = _regularity(_spokes(complement(grams, among), among, chosen))
        result = result * right_angle * regularity
    additive = np.minimum(_ratio(of_parity + of_pairs, everything), 1.0)
    return Scores(result, parity, pairing, right_angle, regularity, additive, chosen)


def shape(grams: Array, among: Pairings, chosen: int) -> ShapeStatistics:
    """Lengths and angles of one Gram matrix [S, S] under one pairing."""
    rest = complement(grams, among)
    partners = among.partners[chosen]
    spokes = _spokes(rest, among, np.array(chosen))
    lengths = np.sqrt(np.maximum(np.diagonal(spokes), 0.0))
    cosines = np.clip(_ratio(spokes, lengths[:, None] * lengths[None, :]), -1.0, 1.0)
    angles = np.degrees(np.arccos(cosines))
    squares = np.diagonal(spokes)
    between = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * spokes, 0.0))
    return ShapeStatistics(
        within=_distances(grams, among.even, partners),
        within_complement=_distances(rest, among.even, partners),
        between=between,
        angles=angles,
        line_angles=np.minimum(angles, 180 - angles),
    )


def assignment(costs: Array) -> NDArray[np.int64]:
    """The column for each row of a square matrix with the smallest sum of costs: [K].

    The Hungarian method, K³: rows are added one by one along a shortest augmenting path; potentials
    of rows and columns keep the reduced costs non-negative.
    """
    size = len(costs)
    row_of = np.full(size + 1, -1)  # column -> its row; column `size` holds the row being added
    rows, columns = np.zeros(size), np.zeros(size + 1)
    for row in range(size):
        row_of[size], here = row, size
        shortest = np.full(size, np.inf)
        came_from = np.full(size, size)
        used = np.zeros(size + 1, dtype=np.bool_)
        while row_of[here] >= 0:
            used[here] = True
            reduced = costs[row_of[here]] - rows[row_of[here]] - columns[:size]
            better = ~used[:size] & (reduced < shortest)
            shortest[better], came_from[better] = reduced[better], here
            open_paths = np.where(used[:size], np.inf, shortest)
            here = int(open_paths.argmin())
            step = open_paths[here]
            rows[row_of[used]] += step
            columns[used] -= step
            shortest[~used[:size]] -= step
        while here != size:  # augment along the path
            row_of[here] = row_of[came_from[here]]
            here = int(came_from[here])
    return np.argsort(row_of[:size])


def _spokes(grams: Array, among: Pairings, chosen: NDArray[np.int64]) -> Array:
    """Inner products of the spokes under each chosen pairing [..., K, K]; a spoke is the mean of
    the two states of its pair, relative to the centroid."""
    partners = among.partners[chosen]  # [..., K]
    even = np.broadcast_to(among.even, partners.shape)

    def block(a: NDArray[np.int64], b: NDArray[np.int64]) -> Array:
        rows = np.take_along_axis(grams, a[..., :, None], axis=-2)
        return np.take_along_axis(rows, b[..., None, :], axis=-1)

    cross = block(even, partners)
    both = block(even, even) + block(partners, partners) + cross
    return (both + np.swapaxes(cross, -1, -2)) / 4


def _regularity(spokes: Array) -> Array:
    """Weitzenböck's ratio of the triangle with this Gram matrix [..., 3, 3]."""
    edges = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    inner = edges @ spokes @ edges.T  # [..., 2, 2]
    squared = inner[..., 0, 0] * inner[..., 1, 1] - inner[..., 0, 1] ** 2
    area = np.sqrt(np.maximum(squared, 0.0)) / 2
    sides = 3 * np.trace(spokes, axis1=-2, axis2=-1)
    return np.minimum(_ratio(4 * np.sqrt(3) * area, sides), 1.0)


def _distances(grams: Array, a: NDArray[np.int64], b: NDArray[np.int64]) -> Array:
    return np.sqrt(np.maximum(grams[a, a] + grams[b, b] - 2 * grams[a, b], 0.0))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """0 where the denominator is 0."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, 0.0)
