"""Prisms, planes and clusters that were made to have a known shape."""

import numpy as np
import pytest

from reproduction.claims import CLAIMS
from reproduction.measures import geometry as of_shapes
from reproduction.measures import prisms as of_prisms
from reproduction.model_selection import A, P
from reproduction.results import Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED, judge
from statetrace.groups import group
from statetrace.lenses.parts.geometry_rows import Rows
from statetrace.lenses.parts.layer_geometry import Setting, look_at_layer
from statetrace.lenses.parts.prism import pairings
from tests.lenses.shapes import prism
from tests.reproduction.made import write_csv, write_json

BY_NAME = {claim.name: claim for claim in CLAIMS}
ANGLES, PLANES, ADDITIVE = (BY_NAME[f"prism-{name}"] for name in ("angles", "planes", "additive"))


def write_shape(root, means, each, noise, errors=True, seed=0):
    """What the lens sees of `each` points about every state's mean, as it is kept."""
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(6), each)
    points = means[states] + noise * rng.standard_normal((len(states), means.shape[1]))
    s3, rows = group("S3"), Rows()
    setting = Setting(s3, states, among=pairings(s3), permutations=40)
    found = look_at_layer(points, 3, setting, rows)
    folder = root / "results/zoo" / P
    columns = rows.columns
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    write_csv(folder / "geometry.csv", lines)
    summary = {"sequences": len(points), "best_layer": 3, "prism": found.prism}
    write_json(folder / "geometry.json", {"summary": summary})
    drawn = {"prism_means": found.arrays["decomposition_means"].tolist()}
    if errors:
        drawn["prism_errors"] = found.arrays["decomposition_errors"].tolist()
    write_json(folder / "drawn.json", drawn)
    return Results(root)


@pytest.mark.parametrize("errors", [True, False])
def test_a_prism_is_as_sure_as_its_corners(tmp_path, errors):
    """Spokes that are 60° apart: with few points they may be anything, with many they are not."""
    for each, noise, judgement in ((400, 0.05, AGREES), (10, 0.8, NOT_REACHED)):
        found = ANGLES.measure(write_shape(tmp_path, prism(0, 1.5), each, noise, errors))
        assert found.low <= found.value <= found.high
        assert judge(ANGLES.rule, found) == judgement


def test_errors_that_were_not_kept_are_no_smaller(tmp_path):
    """Whatever the activations' width: what is not known is taken as the most it can be."""
    for width in (3, 20):
        means = prism(1, 1.5, width)
        exact, bound = (
            of_prisms.corner_errors(write_shape(tmp_path, means, 100, 0.5, kept), f"zoo/{P}")
            for kept in (True, False)
        )
        assert exact == pytest.approx(np.full((6, 3), 0.5 / 10), rel=0.4)
        assert bound.min() > exact.mean()


def test_planes_and_parts_of_a_prism(tmp_path):
    means = prism(0, 1.5)
    found = write_shape(tmp_path, means, 100, 0.01)
    assert judge(PLANES.rule, PLANES.measure(found)) == AGREES
    assert judge(ADDITIVE.rule, ADDITIVE.measure(found)) == AGREES
    tilted = means.copy()
    tilted[pairings(group("S3")).even[0], 2] -= 0.6  # one corner leaves its plane
    found = write_shape(tmp_path, tilted, 100, 0.01)
    assert PLANES.measure(found).value == pytest.approx(0.6 / (1.5 + 0.2), rel=0.15)
    assert judge(PLANES.rule, PLANES.measure(found)) == DIFFERS
    anywhere = np.random.default_rng(3).standard_normal((6, 5))
    assert judge(ADDITIVE.rule, ADDITIVE.measure(write_shape(tmp_path, anywhere, 100, 0.01))) == (
        DIFFERS
    )


def test_the_best_plane():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((400, 3))
    assert of_shapes.best_plane(points, points @ [1.0, -2.0, 0.5] > 0.3) >= 398
    crossed = (points[:, 0] > 0) != (points[:, 1] > 0)  # no plane parts these
    assert of_shapes.best_plane(points, crossed) < 0.65 * 400
    assert of_shapes.best_plane(points, np.arange(400) < 380) >= 380  # or all are called alike


def test_right_angles_are_no_prism(tmp_path):
    """Spokes as a prism's, but states of one parity no nearer to each other: angles do not count,
    nor does such a model among those with a prism; that it is not additive is a difference."""
    means = prism(0, 1.5, 8) + 1.5 * np.random.default_rng(1).standard_normal((6, 8))
    found = write_shape(tmp_path, means, 100, 0.01)
    about = found.json(f"results/zoo/{P}/geometry.json")["summary"]["prism"]
    assert not of_prisms.is_prism(about)
    for name in ("angles", "orthogonal", "equidistant", "planes"):
        measured = BY_NAME[f"prism-{name}"].measure(found)
        assert (measured.value, measured.words[:8]) == (None, "no prism")
    assert judge(ADDITIVE.rule, ADDITIVE.measure(found)) == DIFFERS
    assert BY_NAME["prism-all"].measure(found).value == 0


@pytest.mark.parametrize(
    ("score", "p", "shown"), [(0.29, 0.034, False), (0.9, 0.2, False), (0.6, 0.01, True)]
)
def test_a_prism_needs_its_score_and_its_p(score, p, shown):
    """The first is what an AA model of the paper's size has."""
    assert of_prisms.is_prism({"score": score, "p": p}) == shown


def test_prisms_of_aa_models_stand_beside(tmp_path):
    found = write_shape(tmp_path, prism(0, 1.5), 100, 0.01)
    other = {"score": 0.31, "p": 0.04, "pairs": [], "by": "then 213"}
    write_json(tmp_path / "results/zoo" / A / "geometry.json", {"summary": {"prism": other}})
    rows = [
        {"measure": "line_angle", "layer": 6, "name": "a", "value": 61.0, "p": None},
        {"measure": "prism", "layer": 6, "name": "score", "value": 0.1, "p": 0.9},
    ]
    write_csv(tmp_path / "results/zoo" / A / "geometry.csv", rows)
    every = BY_NAME["prism-all"].measure(found)
    assert (every.value, every.n) == (1, 1)
    assert every.words.endswith("of AA models 0 of 1, scores 0.31")
    words = ANGLES.measure(found).words
    assert "undirected lines 6" in words
    assert "spokes from the middle 1" in words
    assert words.endswith("lines 61.0, no prism (score 0.10, p = 0.9)")


@pytest.mark.parametrize(("read", "name"), [(1.0, "aa-plane"), (0.6, "aa-no-plane")])
def test_points_that_a_plane_parts_or_does_not(tmp_path, read, name):
    """Which row a model answers is for its probe to say."""
    folder = tmp_path / "results/zoo" / A
    rows = [
        {"target": "parity", "position": "last", "length": 8, "layer": layer, "metric": "accuracy",
         "mean": value, "std": 0.0, "n": 100, "chance": 0.5}
        for layer, value in enumerate((0.5, read))
    ]  # fmt: skip
    write_csv(folder / "probing.csv", rows)
    states = np.tile(np.arange(6), 50)
    points = np.random.default_rng(0).standard_normal((300, 3))
    odd = np.asarray(group("S3").parity == 1)[states]
    for shift, parted in ((10, True), (0, False)):
        last = {"points": (points + shift * odd[:, None]).tolist(), "states": states.tolist()}
        write_json(folder / "drawn.json", {"last": last})
        claim = BY_NAME[name]
        met = parted if name == "aa-plane" else not parted
        assert judge(claim.rule, claim.measure(Results(tmp_path))) == (AGREES if met else DIFFERS)


def test_parity_between_linear_and_hidden_is_no_case(tmp_path):
    """As of a probe that is right in most cases: the rows say so, and decide nothing."""
    folder = tmp_path / "results/zoo" / A
    rows = [
        {"target": "parity", "position": "last", "length": 8, "layer": layer, "metric": "accuracy",
         "mean": value, "std": 0.0, "n": 100, "chance": 0.5}
        for layer, value in enumerate((0.5, 0.87))
    ]  # fmt: skip
    write_csv(folder / "probing.csv", rows)
    write_json(
        folder / "geometry.json",
        {"summary": {"explained_variance": [0.2, 0.1, 0.1], "sequences": 100}},
    )
    last = {"points": np.eye(6, 3).tolist(), "states": list(range(6))}
    write_json(folder / "drawn.json", {"last": last})
    for name in ("aa-variance", "aa-no-plane"):
        claim = BY_NAME[name]
        found = claim.measure(Results(tmp_path))
        assert judge(claim.rule, found) == NOT_REACHED
        assert "87%" in found.words


def test_how_far_clusters_are_from_their_middle():
    """One in the middle of four corners of a square of side 2."""
    corners = {"1": (1, 1), "2": (1, -1), "3": (-1, -1), "4": (-1, 1), "5": (0, 0)}
    distances = {
        f"object 2: {a}-{b}": float(np.hypot(*np.subtract(corners[a], corners[b])))
        for a in corners
        for b in corners
        if a < b
    }
    which, far = of_shapes.from_the_middle(distances)
    assert which == "object 2: 5"
    assert far == pytest.approx([0, *[2**0.5] * 4], abs=1e-6)


def test_clusters_and_components_of_s5(tmp_path):
    """One layer before the last alone counts."""

    def write(nearest, component):
        numbers = [(layer, f"object 1: 1-{i}", far) for layer in (2, 3) for i, far in
                   ((2, nearest if layer == 2 else 0.1), (3, 1.2), (4, 1.3))]  # fmt: skip
        rows = [
            {"measure": "cluster_distance", "layer": layer, "name": name, "value": value, "n": 120}
            for layer, name, value in numbers
        ]
        rows += [
            {"measure": "explained_variance", "layer": layer, "name": i, "value": share, "n": 4000}
            for layer, share in ((2, component), (3, 0.01))
            for i in (1, 2, 3)
        ]
        folder = tmp_path / "results/s5-made-parity-associative"
        write_csv(folder / "geometry.csv", rows)
        pairs = {"by": "then 21345", "layer": 2, "p_pairing": 0.5, "pairing": 1 - nearest / 2}
        write_json(folder / "geometry.json", {"summary": {"prism": pairs}})
        return Results(tmp_path)

    found = write(0.2, 0.1)
    merged, three = BY_NAME["s5-merged"], BY_NAME["s5-not-three"]
    mirrored = BY_NAME["s5-mirrored"]
    assert (mirrored.measure(found).value, mirrored.measure(found).n) == (0.9, 60)
    assert judge(mirrored.rule, mirrored.measure(found)) == AGREES
    assert merged.measure(found).value == 0.2
    assert merged.measure(found).words.startswith("object 1: 1-2, layer 2 of 3")
    assert judge(merged.rule, merged.measure(found)) == AGREES
    assert three.measure(found).value == pytest.approx(0.3)
    assert judge(three.rule, three.measure(found)) == AGREES
    found = write(0.9, 0.32)
    assert judge(merged.rule, merged.measure(found)) == DIFFERS
    assert judge(three.rule, three.measure(found)) == DIFFERS
    assert judge(mirrored.rule, mirrored.measure(found)) == DIFFERS
