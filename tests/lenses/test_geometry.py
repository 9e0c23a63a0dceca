"""Geometry of planted state means, of noise, and of whole models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Group, group
from statetrace.groups.characters import characters
from statetrace.interventions.capture import capture
from statetrace.interventions.sites import Site
from statetrace.lenses.geometry import geometry
from statetrace.lenses.parts import state_means as sm
from statetrace.lenses.parts.geometry_rows import Rows
from statetrace.lenses.parts.layer_geometry import LayerGeometry, Setting, measure_layer
from statetrace.lenses.parts.prism import pairings
from statetrace.lenses.result import LensResult
from statetrace.lenses.specs import GeometrySpec
from statetrace.models import ModelSpec, build
from statetrace.tasks.word_problem import WordProblem, word_problem
from tests.lenses.shapes import S3, moved, prism

PERMUTATIONS = 199


def look(
    points: np.ndarray, states: np.ndarray, g: Group, **settings: Any
) -> tuple[LayerGeometry, dict[tuple[str, str], dict[str, Any]]]:
    """One layer of everything, and its rows by measure and name."""
    setting = Setting(
        g,
        states,
        g.quotients(),
        pairings(g) if g.parity is not None else None,
        characters(g).components(),
        sm.arrangements(g),
        permutations=PERMUTATIONS,
        **settings,
    )
    rows = Rows()
    measured = measure_layer(points, 3, setting, rows)
    table = [dict(zip(rows.columns, row, strict=True)) for row in zip(*rows.columns.values())]  # noqa: B905
    assert all(row["layer"] == 3 for row in table)
    by_name = {(row["measure"], row["name"]): row for row in table}
    assert len(by_name) == len(table)
    return measured, by_name


def scatter(means: np.ndarray, each: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`each` points about every state mean, in random order."""
    rng = np.random.default_rng(seed)
    states = rng.permutation(np.repeat(np.arange(len(means)), each))
    return means[states] + noise * rng.standard_normal((len(states), means.shape[1])), states


@pytest.mark.parametrize("pairing", range(6))
def test_planted_prism(pairing: int) -> None:
    g = group("S3")
    means = moved(prism(pairing, height=1.5, width=12), pairing)
    size = np.linalg.norm(means - means.mean(axis=0), axis=1).mean()
    points, states = scatter(means, 40, 0.02 * size, pairing)
    layer, rows = look(points, states, g)
    assert layer.prism is not None
    expected = {
        frozenset((g.labels[a], g.labels[b]))
        for a, b in zip(S3.even, S3.partners[pairing], strict=True)
    }
    assert {frozenset(pair) for pair in layer.prism["pairs"]} == expected
    assert layer.prism["by"] == S3.by[pairing]
    assert layer.prism["score"] == rows["prism", "score"]["value"] > 0.98
    assert layer.prism["angles"] == pytest.approx([120] * 3, abs=3)
    assert layer.prism["line_angles"] == pytest.approx([60] * 3, abs=3)
    within = layer.prism["within_distance"]
    assert max(within) < 1.05 * min(within)
    assert rows["prism", "score"]["p"] == 1 / (PERMUTATIONS + 1)
    assert rows["prism", "pairing"]["p"] == 1 / (PERMUTATIONS + 1)
    assert rows["prism", "score"]["null_high"] < 0.9
    assert rows["between_share", "state"]["value"] > 0.99
    assert rows["between_share", "state"]["p"] == 1 / (PERMUTATIONS + 1)
    assert rows["quotient_accuracy", "parity"]["value"] == 1
    assert rows["parity", "d_prime"]["value"] > 10
    assert rows["parity", "margin"]["value"] > 10
    assert rows["pair_agreement", "all"]["value"] == 1
    # Squared heights against squared spokes: 6 (1.5 / 2)² and 6.
    share = 6 * 0.75**2 / (6 * 0.75**2 + 6)
    assert rows["quotient_share", "parity"]["value"] == pytest.approx(share, abs=0.02)
    assert layer.summary["irrep_share"]["sign"] == pytest.approx(share, abs=0.02)
    assert sum(layer.summary["explained_variance"]) > 0.98
    # The paper's view of the prism: parity along the first axis, nothing of it along the others.
    view = layer.arrays["decomposition_means"]
    height = np.diff([view[S3.even].mean(axis=0), view[S3.odd].mean(axis=0)], axis=0)[0]
    assert height == pytest.approx([np.mean(within), 0, 0], abs=0.02 * size)
    errors = layer.arrays["decomposition_errors"]
    assert errors == pytest.approx(np.full((6, 3), 0.02 * size / 40**0.5), rel=0.5)


def test_unlabelled_noise_has_uniform_p_values() -> None:
    """Labels that mean nothing are one more permutation: p is uniform, by construction."""
    p: dict[tuple[str, str], list[float]] = {
        ("prism", "score"): [],
        ("prism", "pairing"): [],
        ("between_share", "state"): [],
    }
    for seed in range(80):
        rng = np.random.default_rng(seed)
        stretch = np.linspace(0.1, 3, 8)
        points, states = (
            rng.standard_normal((120, 8)) * stretch,
            rng.permutation(np.repeat(range(6), 20)),
        )
        _, rows = look(points, states, group("S3"), seed=seed)
        for key, values in p.items():
            values.append(rows[key]["p"])
    for values in p.values():
        assert 0.4 < np.mean(values) < 0.6
        assert 0.25 < np.std(values) < 0.33  # 0.289
        assert np.mean(np.array(values) <= 0.1) < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_parity_alone_has_no_pairs(seed: int) -> None:
    """A layer that knows parity and nothing else beats labels permuted over everything, but not
    labels permuted within a parity."""
    means = np.zeros((6, 10))
    means[S3.odd, 0] = 10
    points, states = scatter(means, 50, 1.0, seed)
    _, rows = look(points, states, group("S3"), seed=seed)
    assert rows["parity", "d_prime"]["value"] > 8
    assert rows["prism", "parity"]["value"] > 0.99
    assert rows["prism", "score"]["p"] <= 0.05
    assert rows["prism", "pairing"]["p"] > 0.05


def test_random_means_are_no_prism() -> None:
    """States that are told apart perfectly, but stand anywhere."""
    p = []
    for seed in range(40):
        means = np.random.default_rng(seed).standard_normal((6, 16))
        layer, rows = look(*scatter(means, 20, 0.01, seed), group("S3"), seed=seed)
        assert rows["between_share", "state"]["p"] == 1 / (PERMUTATIONS + 1)
        assert layer.prism is not None
        assert layer.prism["score"] < 0.6
        p.append(rows["prism", "score"]["p"])
    assert np.mean(np.array(p) <= 0.05) <= 0.15


@pytest.mark.parametrize("notation", ["moves", "receives"])
@pytest.mark.parametrize("thing", ["object 1", "object 4", "position 2"])
def test_clusters_by_what_is_where(thing: str, notation: str) -> None:
    """Vectors that know one thing only; places 4 and 5 (or objects) share a vector."""
    g = group("S5", notation)
    spots = np.random.default_rng(0).standard_normal((5, 20))
    spots[4] = spots[3]
    means = spots[sm.arrangements(g)[thing]]
    layer, rows = look(*scatter(means, 2, 0.0, 0), g)
    shares = layer.summary["arrangement_share"]
    assert shares[thing] == pytest.approx(1)
    others = [share for name, share in shares.items() if name.split()[0] == thing.split()[0]]
    # Where object 2 is tells a little about where object 1 is: 1 / 4² of the variance.
    assert sorted(others) == pytest.approx([1 / 16] * 4 + [1])
    assert rows["arrangement_share", thing]["null"] == pytest.approx(4 / 119)
    assert layer.summary["irrep_share"]["4a"] == pytest.approx(1)
    near = {
        name: row["value"] for (measure, name), row in rows.items() if measure == "cluster_distance"
    }
    assert len(near) == 10
    assert min(near, key=lambda name: near[name]) == f"{thing}: 4-5"
    assert near.pop(f"{thing}: 4-5") == pytest.approx(0, abs=1e-6)
    assert min(near.values()) > 0.3


# Whole models ------------------------------------------------------------------------------------


def small(task: WordProblem, positions: int = 16, layers: int = 2, seed: int = 0) -> Any:
    spec = ModelSpec("gpt2", layers=layers, width=16, heads=2)
    return build(spec, task.vocabulary.size, positions, seed=seed)


QUICK = GeometrySpec(sequences=400, permutations=50, points=20)


@pytest.fixture(scope="module")
def of_s3() -> tuple[Any, WordProblem, LensResult]:
    task = word_problem("S3", 6)
    model = small(task)
    return model, task, geometry(model, task, QUICK)


def measures(result: LensResult) -> set[str]:
    return set(result.columns["measure"])


def test_random_model(of_s3: tuple[Any, WordProblem, LensResult], tmp_path: Path) -> None:
    model, task, result = of_s3
    assert sorted(set(result.columns["layer"])) == [0, 1, 2]
    assert {"prism", "angle", "irrep_share", "arrangement_share", "parity"} <= measures(result)
    assert any("low accuracy" in note for note in result.notes)
    shapes = {name: array.shape for name, array in result.arrays.items()}
    assert shapes["means"] == (3, 6, 16)
    assert shapes["pca_points"] == shapes["decomposition_points"] == (3, 20, 3)
    assert shapes["prism_null"] == (3, 50)
    assert result.arrays["counts"].sum() == result.summary["sequences"] == 400
    for measure in ("irrep_share", "quotient_share"):
        last = [row["value"] for row in result.rows(measure=measure, layer=2)]
        assert sum(last) == pytest.approx(1) if measure == "irrep_share" else 0 < sum(last) < 1
    result.save(tmp_path)
    loaded = LensResult.load(tmp_path, "geometry")
    assert loaded.columns == result.columns
    assert loaded.summary == result.summary
    again = geometry(model, task, QUICK)
    assert again.columns == result.columns


def test_means_are_those_of_the_model(of_s3: tuple[Any, WordProblem, LensResult]) -> None:
    model, task, result = of_s3
    drawn = task.draw(400, 0)
    tokens = task.encode(drawn.actions)
    sites = [Site("resid", layer) for layer in range(3)]
    seen = capture(model, tokens, sites)
    for layer, site in enumerate(sites):
        for state in range(6):
            rows = drawn.states[:, -1] == state
            expected = seen[site][torch.from_numpy(rows), -1].mean(dim=0)
            np.testing.assert_allclose(result.arrays["means"][layer, state], expected, atol=1e-5)


@pytest.mark.parametrize("pairing", [0, 3])
def test_prism_written_into_a_model(pairing: int) -> None:
    """With one action the state is the action, and its embedding is the table we write."""
    task = word_problem("S3", 1)
    model = small(task)
    corners = torch.from_numpy(moved(prism(pairing, width=16), 0)).float()
    with torch.no_grad():
        model.transformer.wte.weight[:6] = corners
    result = geometry(model, task, QUICK)
    assert result.summary["best_layer"] == 0
    assert result.summary["prism"]["score"] == pytest.approx(1, abs=1e-4)
    assert result.summary["prism"]["by"] == S3.by[pairing]
    assert any("6 sequences of length 1 instead of 400" in note for note in result.notes)


@pytest.mark.parametrize(("name", "quotient"), [("A4", "Z3"), ("Z3", None), ("A5", None)])
def test_without_parity(name: str, quotient: str | None) -> None:
    task = word_problem(name, 4)
    result = geometry(small(task), task, QUICK)
    absent = {"parity", "prism", "angle", "within_distance", "pair_agreement"}
    assert not absent & measures(result)
    assert "prism" not in result.summary
    assert "decomposition_means" not in result.arrays
    assert any(f"{name} has no parity" in note for note in result.notes)
    named = {row["name"] for row in result.rows(measure="quotient_share")}
    assert named == ({quotient} if quotient else set())
    assert "irrep_share" in measures(result)


def test_states_that_were_not_visited(tmp_path: Path) -> None:
    task = word_problem("S5", 5)
    result = geometry(
        small(task), task, GeometrySpec(sequences=100, permutations=20, layers=(1, 2))
    )
    missing = 120 - result.summary["states_visited"]
    assert missing > 20
    assert any(f"{missing} of 120 states were not visited by 100" in note for note in result.notes)
    assert not {"prism", "irrep_share"} & measures(result)
    assert {"parity", "quotient_share", "arrangement_share"} <= measures(result)
    assert np.isfinite(result.columns["value"]).all()
    assert np.isnan(result.arrays["means"]).all(axis=(0, 2)).sum() == missing
    assert sorted(set(result.columns["layer"])) == [1, 2]
    result.save(tmp_path)


@pytest.mark.parametrize("name", ["Z2", "D2", "Z6"])
def test_small_groups(name: str) -> None:
    task = word_problem(name, 8)
    result = geometry(small(task), task, QUICK)
    assert ("prism" in measures(result)) == (name != "Z2")
    assert "parity" in measures(result)


def test_large_means_are_saved_for_two_layers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statetrace.lenses.geometry._MEANS_SAVED", 100)
    task = word_problem("S3", 4)
    result = geometry(small(task), task, QUICK)
    assert result.arrays["means_layers"].tolist() == [1, 2]
    assert len(result.arrays["means"]) == 2
    assert len(result.arrays["within"]) == len(result.arrays["layers"]) == 3


def test_a_layer_where_nothing_differs(tmp_path: Path) -> None:
    """Embeddings that are all alike have no shares, and say so without NaN."""
    task = word_problem("S3", 4)
    model = small(task)
    with torch.no_grad():
        model.transformer.wte.weight[:] = 1.0
    result = geometry(model, task, QUICK)
    assert np.isfinite(result.columns["value"]).all()
    assert result.summary["between_share"] is None
    assert "irrep_share" not in measures(result)
    result.save(tmp_path)
    assert "NaN" not in (tmp_path / "geometry.json").read_text()


def test_a_diverged_model() -> None:
    task = word_problem("S3", 4)
    model = small(task)
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.weight[0, 0] = float("nan")
    with pytest.raises(StatetraceError, match="layer 2 are not finite"):
        geometry(model, task, QUICK)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_on_a_gpu(of_s3: tuple[Any, WordProblem, LensResult]) -> None:
    _, task, result = of_s3
    there = geometry(small(task).to("cuda"), task, QUICK)
    assert there.columns["name"] == result.columns["name"]
    assert there.columns["value"] == pytest.approx(result.columns["value"], rel=1e-2, abs=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 40}, "length 40 needs 41 positions, but the model has 16"),
        ({"layers": (0, 3)}, "the model has no layer 3; use 0 .* to 2"),
        ({"quotients": ("Z9",)}, "no quotient 'Z9'"),
    ],
)
def test_refused_by_the_lens(settings: dict[str, Any], message: str) -> None:
    task = word_problem("S3", 4)
    model = small(task)
    model.config.n_positions = model.config.max_position_embeddings = 16
    with pytest.raises(StatetraceError, match=message):
        geometry(model, task, GeometrySpec(**settings))


@pytest.mark.parametrize(
    "settings",
    [{"sequences": 1}, {"permutations": -1}, {"components": 0}, {"points": -1}, {"layers": ()}],
)
def test_refused_by_the_spec(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(StatetraceError, match=name):
        GeometrySpec(**settings)


def test_one_state_has_no_shape() -> None:
    task = word_problem("S1", 3)
    with pytest.raises(StatetraceError, match="end in one state"):
        geometry(small(task), task, GeometrySpec(sequences=2))


def test_no_permutations_no_p_values() -> None:
    task = word_problem("S3", 4)
    result = geometry(small(task), task, GeometrySpec(sequences=100, permutations=0))
    assert set(result.columns["p"]) == {None}
    assert result.summary["prism"]["p"] is None
