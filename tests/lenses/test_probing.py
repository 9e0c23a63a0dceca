"""The probing lens on a compiled model, and where there is less to see."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import statetrace as st
from statetrace.errors import StatetraceError
from statetrace.lenses.loading import LoadedModel
from statetrace.lenses.parts import probes, probing_data
from statetrace.lenses.parts.activations import residuals
from statetrace.lenses.parts.lengths import choose_lengths
from statetrace.lenses.parts.probing_data import (
    choose_places,
    choose_sequences,
    choose_targets,
    features,
    split_by_prefix,
    untrained_twin,
)
from statetrace.lenses.probing import probing
from statetrace.lenses.result import LensResult, no_progress
from statetrace.lenses.specs import ProbingSpec
from statetrace.models import ModelSpec, build
from statetrace.tasks.word_problem import WordProblem, word_problem

LENGTH = 5
SPEC = ProbingSpec(lengths=(3, 4), train=3000, test=2000, subsets=5, threshold=0.8)
SMALL = ProbingSpec(lengths=(), train=300, test=200, subsets=2)


def small_model(task: WordProblem, seed: int = 0, layers: int = 2) -> Any:
    spec = ModelSpec("gpt2", layers=layers, width=32, heads=4, dropout=0.0)
    return build(spec, task.vocabulary.size, task.length + 1, seed)


@pytest.fixture(scope="module")
def compiled() -> LoadedModel:
    """Layer l holds the product of the last 2 ** l actions, so that a state of n actions can be
    read from layer log2(n) on."""
    return st.compile("associative", "S3", length=LENGTH).loaded


@pytest.fixture(scope="module")
def task(compiled: LoadedModel) -> WordProblem:
    return compiled.task


@pytest.fixture(scope="module")
def model(compiled: LoadedModel) -> Any:
    return compiled.model


@pytest.fixture(scope="module")
def result(model: Any, task: WordProblem) -> LensResult:
    return probing(model, task, SPEC)


def test_the_table_is_complete(result: LensResult) -> None:
    keys = ["target", "position", "length", "layer", "control", "metric"]
    assert list(result.columns) == [*keys, "mean", "std", "n", "chance"]
    places = [("last", 3), ("last", 4), ("last", 5), ("any", 5)]
    wanted = {
        (target, *place, layer, control, metric)
        for target in ("state", "parity")
        for place in places
        for layer in range(4)
        for control in ("none", "untrained", "shuffled")
        for metric in ("accuracy", "probability")
        if control == "none" or place[1] == 5
    }
    rows = result.rows()
    assert len(rows) == len(wanted)
    assert {tuple(row[name] for name in keys) for row in rows} == wanted
    assert all(0 <= row["mean"] <= 1 and 0 <= row["std"] < 0.1 for row in rows)
    assert {row["n"] for row in rows} == {2000}
    assert {(row["target"], row["chance"]) for row in rows} == {("state", 1 / 6), ("parity", 1 / 2)}


def test_a_state_is_read_where_it_is_known_and_its_controls_are_not(result: LensResult) -> None:
    assert result.summary["model_accuracy"]["state"]["last"] == 1.0
    grid = result.arrays["state/none/accuracy"]  # [layers, lengths 3, 4 and 5]
    known = np.array([[False] * 3, [False] * 3, [True, True, False], [True] * 3])
    assert (grid[known] > 0.99).all()
    assert (grid[~known] < 0.25).all()
    assert (result.arrays["state/untrained/accuracy"][:, 2] < 0.25).all()
    for target, chance in (("state", 1 / 6), ("parity", 1 / 2)):
        error = 4.5 * (chance * (1 - chance) / 2000) ** 0.5
        controls = result.rows(target=target, control="shuffled", metric="accuracy")
        assert len(controls) == 8
        assert all(abs(row["mean"] - chance) < error for row in controls)


def test_agrees_with_scikit_learn_at_every_layer(model: Any, task: WordProblem) -> None:
    data, _ = choose_sequences(model, task, 4000, 3600, 1, 4, seed=1)
    targets = choose_targets(task, None)
    for place, known, held_out in features(
        model, task, data, choose_places(data, (5,), 1), no_progress
    ):
        states = data.states.gather(1, place.at[:, None])[:, 0]
        labels = [target.map[states] for target in targets]
        classes = [target.classes for target in targets]
        fitted = probes.fit(known, [label[: data.train] for label in labels], classes)
        assert fitted.converged.all()
        for number, label in enumerate(labels):
            train, test = label[: data.train].numpy(), label[data.train :].numpy()
            accuracy, _ = fitted.score(held_out, label[data.train :], number)
            for layer in range(len(known)):
                # in float32 scikit-learn may end half a point early
                x, new = known[layer].double().numpy(), held_out[layer].double().numpy()
                peer = LogisticRegression(tol=1e-6, max_iter=20_000).fit(x, train)
                expected = peer.score(new, test)
                assert accuracy[layer].item() == pytest.approx(expected, abs=0.005)


def test_states_of_all_lengths_are_read_better_than_those(result: LensResult) -> None:
    """Of the whole length, that is: most of its states are of shorter sequences, and easy."""
    curves = result.summary["curves"]["none"]["state"]["accuracy"]
    assert curves["any"][2] > curves["last"][2] + 0.5  # four of five positions
    assert curves["any"][0] > curves["last"][0] + 0.03  # after one action, state and action agree


def test_the_summary_repeats_the_table(result: LensResult) -> None:
    summary = result.summary
    assert (summary["train"], summary["test"], summary["subsets"]) == (3000, 2000, 5)
    for control in ("none", "untrained", "shuffled"):
        for position in ("last", "any"):
            read = {"position": position, "length": 5, "control": control}
            rows = result.rows(target="parity", metric="probability", **read)
            curve = summary["curves"][control]["parity"]["probability"][position]
            assert curve == [row["mean"] for row in rows]
    grid = result.arrays["state/none/accuracy"]
    for layer in range(4):
        read = [n for n, value in zip((3, 4, 5), grid[layer], strict=True) if value >= 0.8]
        whole = [n for i, n in enumerate(read) if n == (3, 4, 5)[i]]
        assert summary["reach"]["state"][layer] == (whole[-1] if whole else 0)
    first = summary["first_layer"]["parity"]["last"]
    at_end = result.arrays["parity/none/accuracy"][:, -1]
    assert first == next((layer for layer, value in enumerate(at_end) if value >= 0.8), None)
    assert summary["reach"]["state"] == [0, 0, 4, 5]


def test_another_seed_gives_other_numbers(model: Any, task: WordProblem) -> None:
    shares: list[float] = []
    first = probing(model, task, SMALL, shares.append)
    assert len(shares) > 4
    assert 0 < shares[0] < 0.5
    other = probing(model, task, dataclasses.replace(SMALL, seed=1))
    assert other.columns["mean"] != first.columns["mean"]


def test_a_shorter_length_is_the_shorter_task(model: Any, task: WordProblem) -> None:
    """As for a model that is still learning and knows no longer sequences yet."""
    spec = dataclasses.replace(SMALL, lengths=(3,))
    shorter = probing(model, task, dataclasses.replace(spec, length=4))
    assert shorter.columns == probing(model, task.at_length(4), spec).columns
    assert {row["length"] for row in shorter.rows(position="any")} == {4}


def test_by_length_equals_shorter_sequences(model: Any, task: WordProblem) -> None:
    """Position n of long sequences, and the last of the same sequences cut to n actions."""
    data, _ = choose_sequences(model, task, 200, 100, 2, 3, seed=0)
    places = choose_places(data, (3, 5), seed=0)
    result = {
        (place.position, place.length): (known.clone(), held_out.clone())
        for place, known, held_out in features(model, task, data, places, no_progress)
    }
    for length in (3, 5):
        tokens = task.encode(data.actions[:, :length])
        alone = residuals(model, tokens, [length])[:, :, 0]
        known, held_out = alone[:, : data.train].clone(), alone[:, data.train :].clone()
        probes.standardise(known, held_out)
        torch.testing.assert_close(result["last", length][0], known, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(result["last", length][1], held_out, atol=1e-3, rtol=1e-3)


def test_less_memory_gives_the_same(
    model: Any, task: WordProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = probing(model, task, SMALL)
    monkeypatch.setattr(probing_data, "free_bytes", lambda device: 1)
    parts = probing(model, task, SMALL)
    np.testing.assert_allclose(whole.columns["mean"], parts.columns["mean"], atol=0.006)


@pytest.mark.parametrize("shortest", [1, 3, 5])
def test_training_and_held_out_sequences_share_no_prefix(task: WordProblem, shortest: int) -> None:
    drawn = task.draw(2000, seed=0)
    order, cut = split_by_prefix(drawn, shortest, 0.3, seed=0)
    assert sorted(order) == list(range(2000))
    sides = [
        {tuple(row) for row in drawn.actions[part, :shortest]}
        for part in (order[:cut], order[cut:])
    ]
    assert not sides[0] & sides[1]
    assert abs(cut - 600) < (200 if shortest == 1 else 20)


@pytest.mark.parametrize(
    ("longest", "lengths", "most", "wanted"),
    [
        (16, None, 20, tuple(range(5, 17))),
        (100, None, 20, tuple(range(5, 101, 5))),
        (100, None, 1000, tuple(range(5, 101))),
        (3, None, 20, (3,)),
        (32, None, 20, tuple(range(6, 33, 2))),
        (16, (7, 2, 7), 20, (2, 7, 16)),
    ],
)
def test_lengths(
    longest: int, lengths: tuple[int, ...] | None, most: int, wanted: tuple[int, ...]
) -> None:
    assert choose_lengths(longest, lengths, most) == wanted


def test_a_group_without_parity_has_no_parity_columns() -> None:
    task = word_problem("A4", 6)
    result = probing(small_model(task), task, SMALL)
    assert set(result.columns["target"]) == {"state"}
    assert "parity" not in result.summary["curves"]["none"]
    assert any("A4 has no parity" in note for note in result.notes)
    with pytest.raises(StatetraceError, match="parity"):
        probing(small_model(task), task, dataclasses.replace(SMALL, targets=("parity",)))


def test_quotients_by_request() -> None:
    task = word_problem("S4", 4)
    spec = dataclasses.replace(SMALL, targets=("quotients",), controls=())
    result = probing(small_model(task), task, spec)
    assert list(dict.fromkeys(result.columns["target"])) == ["parity", "S3"]
    assert set(result.columns["control"]) == {"none"}
    assert {row["chance"] for row in result.rows(target="S3")} == {1 / 6}


def test_fewer_sequences_than_asked_for(task: WordProblem) -> None:
    short = task.at_length(3)  # 216 sequences
    spec = ProbingSpec(train=2000, test=1000, subsets=10)
    result = probing(small_model(short), short, spec)
    assert result.summary["train"] + result.summary["test"] <= 216
    assert result.summary["subsets"] == result.summary["train"] // 40
    assert any("instead of 2000 and 1000" in note for note in result.notes)
    assert any("subsets instead of 10" in note for note in result.notes)
    with pytest.raises(StatetraceError, match="S3 has only 36 sequences of length 2"):
        probing(small_model(task), task.at_length(2), spec)


def test_one_subset_has_no_deviation(task: WordProblem, tmp_path: Path) -> None:
    result = probing(small_model(task), task, dataclasses.replace(SMALL, subsets=1))
    assert set(result.columns["std"]) == {None}
    result.save(tmp_path)
    assert LensResult.load(tmp_path, "probing").columns == result.columns


def test_actions_that_fix_the_parity_are_noticed() -> None:
    task = word_problem("S3", 6, actions="transpositions")
    result = probing(small_model(task), task, SMALL)
    place = {"position": "last", "length": 6, "layer": 0}
    (row,) = result.rows(target="parity", control="none", metric="accuracy", **place)
    assert (row["chance"], row["mean"]) == (1.0, 1.0)
    assert any("the same parity" in note for note in result.notes)


def test_probes_that_did_not_converge_are_counted(model: Any, task: WordProblem) -> None:
    result = probing(model, task, dataclasses.replace(SMALL, max_iterations=1))
    assert any("probes had not converged after 1 iterations" in note for note in result.notes)


def test_an_untrained_twin_is_what_build_would_make(task: WordProblem) -> None:
    model = small_model(task, layers=3)
    twin = untrained_twin(model, seed=3)
    expected = small_model(task, seed=3, layers=3).state_dict()
    assert twin.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in twin.state_dict().items())
    assert untrained_twin(model.double(), 3).lm_head.weight.dtype == torch.float64


def test_data_are_the_tasks_own(model: Any, task: WordProblem) -> None:
    data, _ = choose_sequences(model, task, 300, 100, 3, 2, seed=0)
    assert (data.train, data.test, data.subsets) == (300, 100, 3)
    assert torch.equal(task.states(data.actions), data.states)
    assert len({tuple(row) for row in data.actions.tolist()}) == 400


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"subsets": 0}, "subsets 0"),
        ({"train": 0}, "train 0"),
        ({"C": 0.0}, "C 0.0"),
        ({"threshold": 1.5}, "threshold 1.5"),
        ({"controls": ("random",)}, "control 'random' is unknown"),
        ({"targets": ()}, "targets is empty"),
        ({"targets": ("Z7",)}, "Z7"),
        ({"lengths": (0,)}, "length 0 cannot be probed in sequences of length 5"),
        ({"lengths": (9,)}, "length 9 cannot be probed"),
    ],
)
def test_bad_settings_are_quoted(task: WordProblem, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(StatetraceError, match=message):
        probing(small_model(task), task, dataclasses.replace(SMALL, **spec))


def test_a_length_beyond_the_models_positions(task: WordProblem) -> None:
    long = task.at_length(2000)
    with pytest.raises(StatetraceError, match="2001 positions, but the model has 1024"):
        probing(small_model(task), long, SMALL)


def test_probes_of_every_position_agree_with_scikit_learn(model: Any, task: WordProblem) -> None:
    """Position "all", against features and labels of plain forward passes."""
    spec = dataclasses.replace(SMALL, positions=("all",), train=2000, test=1000, controls=())
    result = probing(model, task, spec)
    assert {*result.columns["position"]} == {"all"}
    assert {*result.columns["n"]} == {1000}
    data, _ = choose_sequences(model, task, 2000, 1000, 2, LENGTH, 0, LENGTH)
    with torch.no_grad():
        hidden = model(task.encode(data.actions), output_hidden_states=True).hidden_states[1]
    parts = (slice(0, data.train), slice(data.train, None))
    (x, new), (known, true) = (
        [values[part, -LENGTH:].flatten(0, 1).numpy() for part in parts]
        for values in (hidden, data.states)
    )
    scale = x[:2000].mean(0), x[:2000].std(0)
    x, new = ((rows - scale[0]) / scale[1] for rows in (x[:2000], new[:1000]))
    peer = LogisticRegression(tol=1e-6, max_iter=20_000).fit(x, known[:2000])
    (row,) = result.rows(target="state", layer=1, metric="accuracy")
    assert row["mean"] == pytest.approx(peer.score(new, true[:1000]), abs=0.006)


def test_positions_do_not_disturb_each_other(model: Any, task: WordProblem) -> None:
    both = probing(model, task, SMALL)
    for position in ("last", "any"):
        alone = probing(model, task, dataclasses.replace(SMALL, positions=(position,)))
        assert alone.rows() == both.rows(position=position)
