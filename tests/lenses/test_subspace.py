"""The subspace lens on models whose subspace is known, and against plain hooks."""

import dataclasses

import numpy as np
import pytest
import torch

from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.interventions.exchange import Exchange
from statetrace.lenses.compiled import task_of
from statetrace.lenses.parts.subspaces import random_basis
from statetrace.lenses.specs import SubspaceSpec
from statetrace.lenses.subspace import subspace
from statetrace.models import ModelSpec, anatomy, build
from statetrace.models.compiled import compile_model
from statetrace.models.predict import evaluating
from statetrace.tasks.word_problem import word_problem

QUICK = SubspaceSpec(sequences=1500, pairs=100, train=96, steps=25, draws=2)


def shares(result, outcome="interchange", method="means", control="none", pairs="different"):
    """By layer."""
    wanted = {"outcome": outcome, "method": method, "control": control, "pairs": pairs}
    return [row["share"] for row in result.rows(**wanted)]


def known_direction(name, model):
    """Where the compiler put parity [D, 1]: the answer tells the identity from the first odd one
    by nothing else, since they have the same rest."""
    states = group(name)
    odd = int(np.flatnonzero(states.parity)[0])
    difference = model.lm_head.weight[odd] - model.lm_head.weight[states.identity]
    return torch.nn.functional.normalize(difference.detach(), dim=0)[:, None]


def angles(result, spec, model, method):
    """Between the line of each layer and the known direction, in degrees."""
    lines = torch.from_numpy(result.arrays[f"parity.{method}"])[..., 0].double()
    cosines = lines @ known_direction(spec.group, model)[:, 0].double()
    return cosines.abs().clamp(max=1).acos().rad2deg().tolist()


def test_the_subspace_of_parity_in_the_parity_associative_algorithm():
    spec = CompileSpec("S3", "parity-associative", 5)
    model = compile_model(spec)
    result = subspace(model, task_of(spec), QUICK)
    for method in ("means", "das"):
        # Block 1 counts parity, block 2 divides the action by it, later only the answer uses it. An
        # exchange between the two blocks changes parity and, inconsistently, the rest.
        assert shares(result, method=method)[2:] == [1.0] * 4
        assert shares(result, "source value", method)[1:] == [1.0] * 5
        assert shares(result, "both", method)[1] > 0.4
        assert shares(result, "neither", method, pairs="same")[2:] == [1.0] * 4
        assert shares(result, "source value", method, "complement")[1:] == [0.0] * 5
        assert max(shares(result, method=method, control="untrained")) < 0.1
    assert max(shares(result, method="random", control="random")[1:]) < 0.05
    assert max(angles(result, spec, model, "das")[2:]) < 12


def test_the_angle_to_the_known_subspace_vanishes():
    spec = CompileSpec("S4", "parity-associative", 5)
    model = compile_model(spec)
    settings = SubspaceSpec(sequences=20000, pairs=40, train=40, methods=("means",), controls=())
    result = subspace(model, task_of(spec), settings)
    assert max(angles(result, spec, model, "means")[1:]) < 3
    assert shares(result)[2:] == [1.0] * 4


@pytest.mark.parametrize(("name", "of"), [("S4", "S3"), ("A4", "Z3"), ("D4", "parity")])
def test_a_quotient_that_is_composed_first(name, of):
    """Blocks 1 and 2 compose it, block 3 divides the actions by it."""
    spec = CompileSpec(name, "composed-quotient", 4, quotient=of)
    few = {"sequences": 4000, "pairs": 60, "train": 60, "controls": ()}
    settings = SubspaceSpec(quotients=(of,), methods=("means",), **few)
    result = subspace(compile_model(spec), task_of(spec), settings)
    assert max(shares(result)[:2]) < 0.1
    assert shares(result, "source value")[2] == 1
    assert shares(result)[3:] == [1.0] * 3


def test_dimensions_and_layers():
    spec = CompileSpec("A4", "parallel", 5)
    settings = dataclasses.replace(QUICK, layers=(99,), dimension=3, controls=())
    model = compile_model(spec)
    with pytest.raises(StatetraceError, match="99"):
        subspace(model, task_of(spec), settings)
    layers = (anatomy(model).layers,)
    result = subspace(model, task_of(spec), dataclasses.replace(settings, layers=layers))
    assert result.arrays["Z3.means"].shape == (1, anatomy(model).width, 2)
    assert result.arrays["Z3.das"].shape == (1, anatomy(model).width, 3)
    assert shares(result) == shares(result, method="das") == [1.0]


def test_parity_that_can_be_read_but_is_not_used():
    spec = CompileSpec("S3", "associative", 4, parity="linear")
    settings = dataclasses.replace(QUICK, methods=("means",), controls=())
    result = subspace(compile_model(spec), task_of(spec), settings)
    assert shares(result)[-1] == 0
    assert shares(result, "neither")[-1] == 1


def test_without_a_complement_values_are_compared():
    spec = CompileSpec("Z4", "associative", 4)
    settings = dataclasses.replace(QUICK, sequences=200, dimension=3, controls=())
    result = subspace(compile_model(spec), task_of(spec), settings)
    assert set(result.columns["outcome"]) == {
        "quotient", "rest alone", "neither", "interchange", "source value",
    }  # fmt: skip
    assert shares(result) == shares(result, "source value")
    assert shares(result, method="das")[-1] == 1
    assert any("no complement" in note for note in result.notes)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("family", ["gpt2", "pythia"])
def test_an_exchange_equals_plain_hooks(family, cached, start, monkeypatch):
    task = word_problem("S3", 5)
    spec = ModelSpec(family, layers=2, width=16, heads=2, init_std=0.3)
    model = build(spec, task.vocabulary.size, 8, seed=0).eval()
    model = model.double() if family == "gpt2" else model  # the basis follows
    monkeypatch.setattr(type(anatomy(model)), "fast", cached)
    tokens = task.encode(task.sample(12, 0).actions)
    base, source = tokens[:6], tokens[6:]
    basis = random_basis(16, 2, (0,), torch.device("cpu"))
    blocks = anatomy(model).blocks
    with evaluating(model):
        exchange = Exchange(model, base, source, start)
        for layer in (1, 2):
            streams = []

            def read(module, args, output, streams=streams):
                streams.append(output[0] if isinstance(output, tuple) else output)

            def write(module, args, output, streams=streams):
                stream = (output[0] if isinstance(output, tuple) else output).clone()
                for pair in range(6):
                    for t in range(start, 6):
                        for column in basis.T.to(stream.dtype):
                            change = (streams[0][pair, t] - stream[pair, t]) @ column
                            stream[pair, t] += change * column
                return (stream, *output[1:]) if isinstance(output, tuple) else stream

            for hook, input_ids in ((read, source), (write, base)):
                handle = blocks[layer - 1].register_forward_hook(hook)
                logits = model(input_ids, use_cache=False).logits[:, -1]
                handle.remove()
            torch.testing.assert_close(exchange.logits(layer, basis), logits, atol=1e-5, rtol=1e-5)
        whole = model(source, use_cache=False).logits[:, -1]
        if start == 0:  # everything exchanged at the embedding is the other run
            torch.testing.assert_close(exchange.logits(0, None), whole, atol=1e-5, rtol=1e-5)


def test_coordinates_labels_and_batches_change_nothing():
    settings = dataclasses.replace(QUICK, sequences=600, methods=("means",), controls=())
    spec = CompileSpec("S3", "parity-associative", 4)
    model, task = compile_model(spec), task_of(spec)
    expected = subspace(model, task, settings).rows()
    rotated = compile_model(dataclasses.replace(spec, seed=3, basis="random"))
    assert subspace(rotated, task, settings).rows() == expected
    assert subspace(model, task, dataclasses.replace(settings, batch=7)).rows() == expected

    ids = np.random.default_rng(0).permutation(6)  # token of each element
    vocabulary = dataclasses.replace(task.vocabulary, elements=tuple(ids.tolist()))
    with torch.no_grad():
        for weight in (model.transformer.wte.weight, model.lm_head.weight):
            weight[ids] = weight[:6].clone()
    relabelled = dataclasses.replace(task, vocabulary=vocabulary)
    assert subspace(model, relabelled, settings).rows() == expected


def test_what_cannot_be_measured_is_said():
    with pytest.raises(StatetraceError, match="A5 has no quotient"):
        subspace(compile_model(CompileSpec("A5", length=3)), word_problem("A5", 3), QUICK)
    with pytest.raises(StatetraceError, match="'everywhere'"):
        SubspaceSpec(positions="everywhere")
    task = word_problem("S3", 5)
    untrained = build(ModelSpec("gpt2", layers=1, width=16, heads=2), 7, 8, seed=0)
    with pytest.raises(StatetraceError, match="sequences"):
        subspace(untrained, task, dataclasses.replace(QUICK, sequences=8))
