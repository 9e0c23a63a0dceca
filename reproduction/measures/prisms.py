"""Numbers from the prism that the six states of S3 form (section 4.3, appendix D).

States that are told apart but stand anywhere can have angles, or a p, that look like a prism's;
they do not come near its score (lenses/parts/prism.py). A prism needs both here.

Caveat: activations are not kept, so intervals of a prism are drawn anew from its corners and their
standard errors; where these were not kept either, from the most that they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from reproduction.measured import Measure, Measured, share_of
from reproduction.measures.probing import called
from reproduction.model_selection import A, P, first, large_ones, of_best, zoo
from reproduction.results import Missing, Results, lens_file, lens_files
from statetrace.groups import group
from statetrace.lenses.parts import prism

Array = np.ndarray
DRAWS = 1_000
Prism = dict[str, Any]
"""As in the geometry lens's summary, with `heights` [6]: the states' places along the parity
direction, even ones first."""
CLEAR, RARE = 0.5, 0.05
"""A prism has at least this score, and permuted states have its score less often than that."""


def is_prism(about: Prism) -> bool:
    return bool(about["score"] >= CLEAR and about["p"] < RARE)


def _clear(about: Prism) -> str:
    return f"score {about['score']:.2f}, p = {about['p']:.2g}"


@of_best
def shape(
    model: str,
    number: Callable[[Prism], tuple[float, str]],
    unit: str = "",
    any_shape: bool = False,
) -> Measure:
    """A number of a model's clearest prism, with its interval over sequences; none where its states
    form no prism, since angles and lengths may be right by accident; unless `any_shape` does."""

    def measure(found: Results) -> Measured:
        about = found.json(lens_file(model, "geometry", "json"))["summary"]
        drawn = found.json(file) if found.exists(file := drawn_file(model)) else {}
        means = np.array(drawn.get("prism_means", np.empty((0, 3))), dtype=float)
        try:
            seen = about["prism"] | (_heights(means) if len(means) == 6 else {})
            value, words = number(seen)
        except (KeyError, TypeError) as error:  # as where not all states were visited
            raise Missing(f"of '{model}' the geometry says nothing of {error}") from None
        sources = lens_files(model, "geometry.json")
        if not any_shape and not is_prism(seen):
            return Measured(None, words=f"no prism: {_clear(seen)}", sources=sources)
        if len(means) != 6:
            return Measured(value, about["sequences"], "sequences", unit=unit, words=words,
                            sources=sources)  # fmt: skip
        errors = corner_errors(found, model)
        again = [number(one)[0] for one in _again(means.tobytes(), errors.tobytes())]
        low, high = np.percentile([*again, value], [2.5, 97.5])
        return Measured(value, about["sequences"], "sequences", min(value, float(low)),
                        max(value, float(high)), unit, words,
                        (*sources, *lens_files(model, "geometry"), drawn_file(model)))  # fmt: skip

    return measure


def corner_errors(found: Results, model: str) -> Array:
    """Standard errors of a prism's corners along its three axes [6, 3]. If they were not kept, the
    most that they can be: no direction has more variance than the first principal component, nor
    more within states than all directions have together."""
    drawn = found.json(drawn_file(model))
    if "prism_errors" in drawn:
        return np.array(drawn["prism_errors"], dtype=float)
    layer = found.json(lens_file(model, "geometry", "json"))["summary"]["best_layer"]
    rows = {
        (row["measure"], str(row["name"])): row
        for row in found.table(lens_file(model, "geometry"))
        if row["layer"] == layer and row["measure"] in ("between_share", "explained_variance")
    }
    share, n = (rows["between_share", "state"][name] for name in ("value", "n"))
    means = np.array(drawn["prism_means"])
    between = ((means - means.mean(0)) ** 2).sum(1).mean()
    along = min(1 - share, rows["explained_variance", "1"]["value"]) * between / share
    return np.full(means.shape, np.sqrt(along * len(means) / n))


def odd_states(of: str) -> Array:
    parity = group(of).parity
    if parity is None:
        raise Missing(f"{of} has no parity")
    return np.asarray(parity == 1)


def drawn_file(model: str) -> str:
    return lens_file(model, "drawn", "json")


@lru_cache(maxsize=64)
def _again(corners: bytes, off_by: bytes) -> list[Prism]:
    """Prisms of corners [6, 3] that are off at random, by their errors. Several rows ask for those
    of one model, so that they are kept; arrays come as bytes for that."""
    means, errors = (np.frombuffer(one).reshape(6, 3) for one in (corners, off_by))
    among = prism.pairings(group("S3"))
    off = np.random.default_rng(0).normal(size=(DRAWS, *means.shape)) * errors
    grams = prism.gram(means + off)
    scores = prism.score(grams, among)
    assert scores.right_angle is not None
    made = []
    for i, gram in enumerate(grams):
        seen = prism.shape(gram, among, int(scores.chosen[i]))
        made.append(
            _heights(means + off[i])
            | {
                "score": float(scores.score[i]),
                "null": np.nan,
                "right_angle": float(scores.right_angle[i]),
                "additive": float(scores.additive[i]),
                "angles": seen.angles[np.triu_indices(3, 1)].tolist(),
                "line_angles": seen.line_angles[np.triu_indices(3, 1)].tolist(),
                "within_distance": seen.within.tolist(),
            }
        )
    return made


def _heights(means: Array) -> Prism:
    """Along the direction from the even states' mean to that of the odd ones."""
    odd = odd_states("S3")
    direction = means[odd].mean(0) - means[~odd].mean(0)
    along = means @ direction / np.linalg.norm(direction)
    return {"heights": [*along[~odd].tolist(), *along[odd].tolist()]}


def clearest(found: Results, names: Iterable[str]) -> dict[str, Prism]:
    """The clearest prism of each of the models, where it was kept."""
    files = {name: lens_file(name, "geometry", "json") for name in names}
    kept = {name: file for name, file in files.items() if found.exists(file)}
    about = {name: found.json(file)["summary"].get("prism") for name, file in kept.items()}
    return {name: dict(one) for name, one in about.items() if one}


def of_paa(found: Results, models: tuple[str, ...]) -> dict[str, Prism]:
    """Those of several models of the zoo, and of all PAA models of the paper's size."""
    return clearest(found, [*map(zoo, models), *large_ones(found, P, "geometry.json")])


def of_aa(found: Results) -> dict[str, Prism]:
    """Those of AA models, for contrast."""
    return clearest(found, [*large_ones(found, A, "geometry.json"), zoo(A)])


def share_of_prisms(models: tuple[str, ...]) -> Measure:
    """Of several models of the zoo and all of the paper's size, the share whose states form a
    prism; in words how many AA models' do."""

    def measure(found: Results) -> Measured:
        shapes, others = of_paa(found, models), of_aa(found)
        if not shapes:
            return Measured(None)
        said = f"score {CLEAR:g} and more, p < {RARE:g}; scores {_scores(shapes)}"
        if others:
            passed = sum(map(is_prism, others.values()))
            said += f"; of AA models {passed} of {len(others)}, scores {_scores(others)}"
        files = tuple(lens_file(name, "geometry", "json") for name in (*shapes, *others))
        shown = sum(map(is_prism, shapes.values()))
        return share_of(shown, len(shapes), "models", files, said, _size(list(shapes)))

    return measure


def _scores(shapes: dict[str, Prism]) -> str:
    return ", ".join(f"{one['score']:.2f}" for one in shapes.values())


def _size(names: list[str]) -> str:
    """Of which models: those of the zoo first."""
    small = ", ".join(name.removeprefix("zoo/") for name in names if name.startswith("zoo/"))
    large = ", ".join(name for name in names if not name.startswith("zoo/"))
    return f"{small}; of the paper's size {large}" if large else small


def pairings(models: tuple[str, ...]) -> Measure:
    """How many different ways of pairing states several prisms have."""

    def measure(found: Results) -> Measured:
        shapes = of_paa(found, models)
        if not shapes:
            return Measured(None)
        pairs = [one["pairs"] for one in shapes.values()]
        kinds = {tuple(sorted(tuple(sorted(pair)) for pair in one)) for one in pairs}
        words = "; ".join(" ".join("+".join(pair) for pair in one) for one in pairs)
        files = tuple(lens_file(name, "geometry", "json") for name in shapes)
        return Measured(len(kinds), len(shapes), "models", unit="pairings", words=words,
                        sources=files, size=_size(list(shapes)))  # fmt: skip

    return measure


def angles(model: str, other: str) -> Measure:
    """How far from 60° two spokes of a prism are as undirected lines, at most; in words the same of
    another mechanism's last layer, for contrast."""
    own = shape(model, _off, "°")

    def measure(found: Results) -> Measured:
        made = own(found)
        try:
            name, said = first(found, other, lambda name: _last_angles(found, name))
        except Missing:
            return made
        return replace(made, words=f"{made.words}; {said}",
                       sources=(*made.sources, lens_file(name, "geometry")))  # fmt: skip

    return measure


def _off(prism: Prism) -> tuple[float, str]:
    lines, spokes = (
        " ".join(f"{angle:.1f}" for angle in prism[kind]) for kind in ("line_angles", "angles")
    )
    words = f"largest distance from 60°; undirected lines {lines}, spokes from the middle {spokes}"
    return max(abs(angle - 60) for angle in prism["line_angles"]), words


def _last_angles(found: Results, name: str) -> str:
    """Of an AA model's last layer: angles between lines, and how little a prism it is."""
    rows = found.table(lens_file(name, "geometry"))
    last = max((row["layer"] for row in rows), default=0)
    rows = [row for row in rows if row["layer"] == last]
    lines = [row["value"] for row in rows if row["measure"] == "line_angle"]
    scores = [row for row in rows if (row["measure"], row["name"]) == ("prism", "score")]
    if not lines or not scores or None in lines:
        raise Missing(f"of '{name}' there are no angles in the last layer")
    seen = {"score": scores[0]["value"], "p": scores[0]["p"]}
    said = "a prism" if is_prism(seen) else "no prism"
    listed = " ".join(f"{angle:.1f}" for angle in lines)
    which = f"AA for contrast ({called(found, name)}, last layer)"
    return f"{which}: lines {listed}, {said} ({_clear(seen)})"
