"""Taking heads out: against a model whose weights were changed instead, and nothing left behind."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from statetrace.interventions.capture import capture
from statetrace.interventions.sites import Site, sites_of
from statetrace.lenses.parts.attention_ablation import (
    ablated,
    ablations,
    control_sets,
    correct,
    mean_outputs,
)
from statetrace.models import anatomy
from statetrace.tasks.word_problem import word_problem
from tests.models.conftest import FAST, GENERIC, toy

TASK = word_problem("S3", 8)
PARITY = TASK.group.quotient("parity")
SEQUENCES = TASK.draw(40, seed=0)
TOKENS = TASK.encode(SEQUENCES.actions)
FAMILIES = ("gpt2", "pythia", "llama-grouped", "opt", "qwen2", "gptj")


def model_named(name: str) -> Any:
    """The same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return toy(*(FAST | GENERIC)[name])


def hooks_in(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def projection(model: Any, layer: int) -> torch.Tensor:
    """The weight [H * head_width, D] that reads the heads of a layer, as a view."""
    module = anatomy(model).attention_projection[layer - 1]
    return module.weight if type(module).__name__ == "Conv1D" else module.weight.T


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(TOKENS).logits


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_zeroing_a_head_equals_a_projection_that_does_not_read_it(name):
    model = model_named(name)
    heads = (Site("head", 1, 0), Site("head", 1, 3), Site("head", 3, 2))
    before = logits(model)
    with ablated(model, heads):
        without = logits(model)
    width = anatomy(model).head_width
    for site in heads:
        projection(model, site.layer)[site.head * width : (site.head + 1) * width] = 0
    assert (without - before).abs().max() > 0.01
    unread = logits(model)
    assert torch.allclose(without, unread, atol=1e-5)
    # Heads without output: whatever takes their place, nothing changes.
    for means in (None, mean_outputs(model, TASK, SEQUENCES, heads)):
        with ablated(model, heads, means):
            assert torch.allclose(logits(model), unread, atol=1e-6)


@torch.no_grad()
def test_without_any_head_attention_is_its_bias():
    model = model_named("gpt2")
    with ablated(model, sites_of("head", anatomy(model))):
        without = logits(model)
    for layer in (1, 2, 3):
        projection(model, layer)[:] = 0
    assert torch.allclose(without, logits(model), atol=1e-5)


@pytest.mark.parametrize("batch", [7, 512])
def test_means_are_those_over_sequences_position_by_position(batch):
    model = model_named("pythia")
    site = Site("head", 2, 1)
    means = mean_outputs(model, TASK, SEQUENCES, [site], batch)[site]
    assert means.shape == (9, 12)  # the start marker counts
    assert torch.allclose(means, capture(model, TOKENS, [site])[site].mean(0), atol=1e-6)


@torch.no_grad()
def test_the_mean_over_one_sequence_changes_nothing():
    model = model_named("gpt2")
    single = SEQUENCES[:1]
    heads = sites_of("head", anatomy(model))
    with ablated(model, heads, mean_outputs(model, TASK, single, heads)):
        again = model(TOKENS[:1]).logits
        others = model(TOKENS[1:]).logits
    assert torch.allclose(again, logits(model)[:1], atol=1e-5)
    assert not torch.allclose(others, logits(model)[1:], atol=1e-2)


def test_right_answers_are_counted_for_state_and_quotient():
    model = model_named("gpt2")
    predicted = TASK.read_out(logits(model)).argmax(-1).numpy()
    parity = TASK.group.parity
    counted = correct(model, TASK, SEQUENCES, PARITY, batch=7)
    assert counted["state"].tolist() == (predicted == SEQUENCES.states).tolist()
    assert counted["parity"].tolist() == (parity[predicted] == parity[SEQUENCES.states]).tolist()


class Stop(Exception):
    pass


@pytest.mark.parametrize("means", [False, True])
def test_no_hook_outlives_an_exception(means):
    model = model_named("gpt2")
    heads = sites_of("head", anatomy(model))
    known = mean_outputs(model, TASK, SEQUENCES, heads) if means else None
    before = logits(model)

    def stopped() -> None:
        with ablated(model, heads, known):
            assert hooks_in(model) == 12
            raise Stop

    with pytest.raises(Stop):
        stopped()
    assert hooks_in(model) == 0
    assert torch.equal(logits(model), before)


RANKED = {  # layer.head, best first
    "same layer": ["1.0", "2.1", "1.2", "1.1", "1.3", "2.0", "2.2", "2.3", "3.0"],
    "own layer empty": ["1.0", "1.1", "2.0", "3.0", "3.1"],
    "too few": ["1.0", "1.1", "2.0"],
}


def sites(names: list[str]) -> list[Site]:
    return [Site("head", *map(int, name.split("."))) for name in names]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_controls_are_other_heads_of_the_same_layers(size):
    ranked = sites(RANKED["same layer"])
    sets = control_sets(ranked, size, spared=3, number=20, rng=np.random.default_rng(0))
    layers = Counter(site.layer for site in ranked[:size])
    assert len(sets) == 20
    assert len(set(sets)) > 1
    for heads in sets:
        assert len(set(heads)) == size
        assert not set(heads) & set(ranked[:3])
        assert Counter(site.layer for site in heads) == layers


def test_controls_come_from_elsewhere_only_where_they_must():
    ranked = sites(RANKED["own layer empty"])
    sets = control_sets(ranked, 2, spared=2, number=20, rng=np.random.default_rng(0))
    assert all(len(set(heads)) == 2 and not set(heads) & set(ranked[:2]) for heads in sets)
    assert control_sets(sites(RANKED["too few"]), 2, 2, 5, np.random.default_rng(0)) == ()


def test_ablations_are_what_taking_out_the_heads_by_hand_gives():
    model = model_named("gpt2")
    ranked = list(sites_of("head", anatomy(model)))[::-1]
    shares: list[float] = []
    results = ablations(
        model, TASK, SEQUENCES, PARITY, ranked, (1, 3), 2, np.random.default_rng(0), 7,
        progress=shares.append,
    )  # fmt: skip
    assert [(ablation.kind, ablation.size, ablation.method) for ablation in results] == [
        (kind, size, method)
        for size in (1, 3)
        for kind in ("top", "control")
        for method in ("zero", "mean")
    ]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    touched = {site for ablation in results for heads in ablation.sets for site in heads}
    means = mean_outputs(model, TASK, SEQUENCES, touched)
    for ablation in results:
        assert len(ablation.sets) == (1 if ablation.kind == "top" else 2)
        runs = []
        for heads in ablation.sets:
            assert len(heads) == ablation.size
            with ablated(model, heads, means if ablation.method == "mean" else None):
                runs.append(correct(model, TASK, SEQUENCES, PARITY))
        for what in ("state", "parity"):
            expected = np.mean([run[what] for run in runs], axis=0)
            assert (ablation.correct[what] != expected).mean() < 0.01  # batches differ in rounding
    assert set(results[0].sets[0]) == {ranked[0]}
    assert hooks_in(model) == 0
