"""Numbers from the last layer of AA models, and from the shape that the states of S5 have
(appendices C.3 and D)."""

from __future__ import annotations

import numpy as np

from reproduction.measured import Measure, Measured, share_of
from reproduction.measures.prisms import Prism, drawn_file, odd_states
from reproduction.measures.probing import GUESSED, LINEAR, last_parity
from reproduction.model_selection import S5_P, first, group_of, of_best, sized
from reproduction.results import Missing, Results, Row, lens_file, lens_files
from statetrace.groups import group
from statetrace.lenses.parts.intervals import quantile

Array = np.ndarray


@of_best
def last_variance(model: str, linear: bool) -> Measure:
    """What the principal components explain of the last layer, of a model in which parity is linear
    there or is not."""

    def measure(found: Results) -> Measured:
        read = read_as(found, model, linear)
        about = found.json(lens_file(model, "geometry", "json"))["summary"]
        parts, n = about["explained_variance"], about["sequences"]
        value = float(sum(parts))
        sources = lens_files(model, "geometry.json", "probing")
        words = "components " + " ".join(f"{100 * part:.1f}%" for part in parts)
        if between(read):
            said = f"{value:.0%} ({words}) in a model of which a probe reads parity in {read:.0%}"
            return Measured(None, words=said, sources=sources)
        off = float(quantile()) * value * (1 - value) * (2 / n) ** 0.5  # as of normal activations
        return Measured(value, n, "sequences", value - off, value + off, "share",
                        f"{words}; a probe reads parity in {read:.0%}", sources)  # fmt: skip

    return measure


def read_as(found: Results, model: str, linear: bool) -> float:
    """How often a probe reads parity from the last layer; refuses models of the other kind."""
    read = last_parity(found, model)
    if (read >= LINEAR) != linear:
        raise Missing(f"in '{model}' parity is {'not ' * linear}linear in the last layer")
    return read


def between(read: float) -> bool:
    """Neither linear nor hidden from a linear probe."""
    return GUESSED < read < LINEAR


@of_best
def split_by_plane(model: str, linear: bool) -> Measure:
    """Of points of the last layer along three principal components, the share that the best plane
    puts on the side of its parity; of a model in which parity is linear there or is not."""

    def measure(found: Results) -> Measured:
        read = read_as(found, model, linear)
        last = found.json(drawn_file(model)).get("last")
        if not last:
            raise Missing(f"of '{model}' there are no points of the last layer")
        odd = odd_states(group_of(found, model))[np.array(last["states"])]
        right = best_plane(np.array(last["points"]), odd)
        sources = (drawn_file(model), *lens_files(model, "probing"))
        along = "along three principal components"
        if between(read):
            said = f"{right} of {len(odd)} {along}; a probe of all directions reads {read:.0%}"
            return Measured(None, words=said, sources=sources)
        return share_of(right, len(odd), "sequences", sources,
                        f"{along}; a probe of all directions reads {read:.0%}")  # fmt: skip

    return measure


def best_plane(points: Array, odd: Array) -> int:
    """How many points [n, d] are on the right side of a plane that logistic regression finds, or of
    none if all are called alike."""
    scaled = np.c_[(points - points.mean(0)) / points.std(0), np.ones(len(points))]
    weights = np.zeros(scaled.shape[1])
    for _ in range(50):  # Newton's steps, with a little weight decay for classes that part
        p = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        slope = scaled.T @ (p - odd) + 1e-3 * weights
        curvature = (scaled * (p * (1 - p))[:, None]).T @ scaled + 1e-3 * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, slope)
    said = scaled @ weights > 0
    return int(max((said == odd).sum(), odd.sum(), (~odd).sum()))


def merged_clusters(found: Results) -> Measured:
    """Of the clusters that a PAA model of S5 has by what is where, the smallest distance between
    two, in units of the mean one; one layer before the last."""
    name, (layer, here) = first(found, S5_P, lambda name: cluster_distances(found, name))
    nearest = min(here, key=lambda pair: here[pair])
    words = f"{nearest}, layer {layer} of {layer + 1}; all " + " ".join(
        f"{value:.2f}" for value in sorted(here.values())
    )
    made = Measured(here[nearest], len(here), "pairs of clusters", words=words,
                    sources=(lens_file(name, "geometry"),))  # fmt: skip
    return sized(found, made, [name])


def centre_and_prongs(found: Results) -> Measured:
    """Of the same clusters, how far the one nearest the middle is from it, in units of how far the
    others are on average: 0 for one in the very middle."""
    name, (layer, here) = first(found, S5_P, lambda name: cluster_distances(found, name))
    which, far = from_the_middle(here)
    words = f"{which}, layer {layer} of {layer + 1}; from the middle " + " ".join(
        f"{one:.2f}" for one in far
    )
    made = Measured(float(far[0] / far[1:].mean()), len(far), "clusters", words=words,
                    sources=(lens_file(name, "geometry"),))  # fmt: skip
    return sized(found, made, [name])


def cluster_distances(found: Results, name: str) -> tuple[int, dict[str, float]]:
    """The layer before the last, and distances of the clusters there: "object 2: 1-3" -> 0.6."""
    rows: list[Row] = found.table(lens_file(name, "geometry"))
    layer = max((row["layer"] for row in rows), default=0) - 1
    here = {
        row["name"]: float(row["value"])
        for row in rows
        if (row["measure"], row["layer"]) == ("cluster_distance", layer)
    }
    if not here:
        raise Missing(f"of '{name}' there are no distances of clusters")
    return layer, here


def from_the_middle(distances: dict[str, float]) -> tuple[str, Array]:
    """Of clusters known by their distances, the one nearest their mean, and how far all are from
    it, the nearest first."""
    pairs = {pair.rpartition(" ")[2]: value for pair, value in distances.items()}
    places = sorted({place for pair in pairs for place in pair.split("-")})
    squares = np.zeros((len(places), len(places)))
    for pair, value in pairs.items():
        i, j = (places.index(place) for place in pair.split("-"))
        squares[i, j] = squares[j, i] = value**2
    off = np.sqrt(np.maximum(squares.mean(1) - squares.mean() / 2, 0))
    what = next(iter(distances)).partition(":")[0]
    return f"{what}: {places[int(off.argmin())]}", np.sort(off)


def three_components(found: Results) -> Measured:
    """Of the variance one layer before the last of a PAA model of S5, the share along three
    principal components."""
    name, rows = first(found, S5_P, lambda name: found.table(lens_file(name, "geometry")))
    layer = max(row["layer"] for row in rows) - 1
    parts = [
        row for row in rows if (row["measure"], row["layer"]) == ("explained_variance", layer)
    ][:3]
    if not parts:
        raise Missing(f"of '{name}' there are no principal components")
    value, n = float(sum(row["value"] for row in parts)), int(parts[0]["n"])
    off = float(quantile()) * value * (1 - value) * (2 / n) ** 0.5  # as of normal activations
    words = f"layer {layer} of {layer + 1}; components " + " ".join(
        f"{100 * row['value']:.1f}%" for row in parts
    )
    made = Measured(value, n, "sequences", value - off, value + off, "share", words,
                    (lens_file(name, "geometry"),))  # fmt: skip
    return sized(found, made, [name])


def mirrored(found: Results) -> Measured:
    """Of what tells the states of a PAA model of S5 apart beside parity, the share that an even
    state has in common with the odd one that it is paired with: 1 for a mirror image, a half for
    none. For the best pairing by an element, at the layer where it is clearest."""
    name, about = first(found, S5_P, lambda name: _prism(found, name))
    words = (
        f"pairs by '{about['by']}', layer {about['layer']}; p = {about['p_pairing']:.2g} by "
        "permuted states"
    )
    made = Measured(about["pairing"], group("S5").order // 2, "pairs", unit="share", words=words,
                    sources=(lens_file(name, "geometry", "json"),))  # fmt: skip
    return sized(found, made, [name])


def _prism(found: Results, name: str) -> Prism:
    about = found.json(lens_file(name, "geometry", "json"))["summary"].get("prism")
    if not about:
        raise Missing(f"of '{name}' there are no pairs of states")
    return dict(about)
