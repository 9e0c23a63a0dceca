"""Changes that mean nothing change no result: other token ids for the elements, another basis of
the residual stream, larger logits, other names and another order of the elements, another order of
the sequences, one sequence at a time, more padding. (Slow independent implementations:
test_float64, test_on_compiled, test_grid, test_probes.)"""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from statetrace.groups import Group
from statetrace.interventions import grid
from statetrace.lenses.attention import attention
from statetrace.lenses.compiled import task_of
from statetrace.lenses.depth import depth
from statetrace.lenses.generalization import generalization
from statetrace.lenses.geometry import geometry
from statetrace.lenses.parts import activations, answers, attention_maps
from statetrace.lenses.parts.hidden_padding import HiddenPadding
from statetrace.lenses.patching import patching
from statetrace.lenses.probing import probing
from statetrace.lenses.specs import (
    AttentionSpec,
    DepthSpec,
    GeneralizationSpec,
    GeometrySpec,
    PatchingSpec,
    ProbingSpec,
)
from statetrace.models import build
from statetrace.models.compiled import CompileSpec, compile_model
from statetrace.models.spec import ModelSpec
from statetrace.tasks.plain_text import PlainText
from statetrace.tasks.sentences import padded
from statetrace.tasks.sequences import Sequences

LENSES = {
    "generalization": (generalization, GeneralizationSpec(sequences=200, longest=6)),
    "depth": (depth, DepthSpec(pairs=20)),
    "patching": (patching, PatchingSpec(pairs=20)),
    "probing": (probing, ProbingSpec(train=400, test=100, subsets=2, most_lengths=2, controls=())),
    "attention": (
        attention,  # without other heads compiled models answer with ties
        AttentionSpec(examples=200, ablation_sizes=(2,), controls=0, relabelings=0),
    ),
    "geometry": (geometry, GeometrySpec(sequences=200, permutations=0)),
}
SPEC = CompileSpec("S3", "parity-associative", 6)


def random_model(positions=14):
    """With weights large enough that its answers differ."""
    model = build(ModelSpec("gpt2", layers=3, width=16, heads=2), 7, positions, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    return model


MODELS = {"compiled": lambda: compile_model(SPEC), "random": random_model}


def assert_same(one, other):
    """Equal tables, numbers up to rounding."""
    assert one.columns.keys() == other.columns.keys()
    for name in one.columns:
        a, b = (np.array(list(each.columns[name]), dtype=object) for each in (one, other))
        numbers = [isinstance(value, float) for value in a]
        assert a[np.invert(numbers)].tolist() == b[np.invert(numbers)].tolist(), name
        np.testing.assert_allclose(a[numbers].astype(float), b[numbers].astype(float), atol=2e-4)


def relabelled(model, task, seed=1):
    """The same model with other token ids for the elements."""
    model, ids = copy.deepcopy(model), np.random.default_rng(seed).permutation(6)
    tied = model.lm_head.weight is model.transformer.wte.weight
    with torch.no_grad():
        for matrix in (model.transformer.wte, model.lm_head)[: 1 if tied else 2]:
            matrix.weight[ids] = matrix.weight[:6].clone()
    vocabulary = dataclasses.replace(task.vocabulary, elements=tuple(ids.tolist()))
    return model, dataclasses.replace(task, vocabulary=vocabulary)


def with_held_out(task):
    """All lenses draw from the same 200 sequences."""
    return dataclasses.replace(task, held_out=task.sample(200, seed=1))


def louder(model, task):
    """Logits times 3."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.lm_head.weight = torch.nn.Parameter(3 * model.lm_head.weight)
    return model, task


def renamed(model, task):
    """The elements in another order, with other labels."""
    new = np.random.default_rng(1).permutation(6)  # old index -> new index
    group, old = task.group, np.argsort(new)
    table = new[group.table[np.ix_(old, old)]].astype(group.table.dtype)
    labels = tuple(group.labels[i] for i in old)
    copied = Group(group.name, group.notation, labels, table, group.parity[old].copy())
    elements = tuple(task.vocabulary.elements[i] for i in old)
    held_out = task.held_out
    arrays = (new[each].astype(np.uint8) for each in (held_out.actions, held_out.states))
    return model, dataclasses.replace(
        task, group=copied, vocabulary=dataclasses.replace(task.vocabulary, elements=elements),
        held_out=Sequences(*arrays),
    )  # fmt: skip


def reordered(model, task):
    """The same sequences in another order."""
    rows = np.random.default_rng(2).permutation(200)
    held_out = Sequences(task.held_out.actions[rows], task.held_out.states[rows])
    return model, dataclasses.replace(task, held_out=held_out)


def turned(model, seed=1):
    """The same model in another orthonormal basis. Layer norms subtract the mean, so the basis
    keeps the direction of ones; their weights are ones here."""
    model = copy.deepcopy(model).double()
    width = model.config.n_embd
    generator = torch.Generator().manual_seed(seed)
    ones = torch.ones(width, dtype=torch.float64)
    start = torch.linalg.qr(torch.cat([ones[:, None], torch.eye(width).double()[:, 1:]], 1))[0]
    basis = (
        start @ torch.block_diag(torch.ones(1, 1).double(), _random(width - 1, generator)) @ start.T
    )
    torch.testing.assert_close(ones @ basis, ones)
    with torch.no_grad():
        body = model.transformer
        for norm in [body.ln_f, *(n for block in body.h for n in (block.ln_1, block.ln_2))]:
            assert bool((norm.weight == 1).all())
            assert bool((norm.bias == 0).all())
        for embedding in (body.wte, body.wpe):
            embedding.weight.copy_(embedding.weight @ basis)
        for block in body.h:
            for reads in (block.attn.c_attn, block.mlp.c_fc):
                reads.weight.copy_(basis.T @ reads.weight)
            for writes in (block.attn.c_proj, block.mlp.c_proj):
                writes.weight.copy_(writes.weight @ basis)
                writes.bias.copy_(writes.bias @ basis)
        if model.lm_head.weight is not body.wte.weight:
            model.lm_head.weight.copy_(model.lm_head.weight @ basis)
    return model


def _random(width, generator):
    return torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("kind", MODELS)
def test_token_ids_mean_nothing(kind, lens):
    measure, spec = LENSES[lens]
    model, task = MODELS[kind](), task_of(SPEC)
    assert_same(measure(model, task, spec), measure(*relabelled(model, task), spec))


WHOLE = ("generalization", "attention", "geometry")
"""Lenses whose numbers are means over sequences as they are; others draw corruptions or subsets by
the index of a sequence or an element."""


@pytest.mark.parametrize(
    ("change", "lens"),
    [
        *((louder, lens) for lens in LENSES),
        *((renamed, lens) for lens in WHOLE),
        *((reordered, lens) for lens in WHOLE),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("kind", MODELS)
def test_changes_that_mean_nothing(kind, change, lens):
    measure, spec = LENSES[lens]
    model, task = MODELS[kind](), with_held_out(task_of(SPEC))
    if lens == "probing":
        task = task_of(SPEC)  # it needs more sequences
    one, other = measure(model, task, spec), measure(*change(model, task), spec)
    assert_same(without(one, change), without(other, change))


def without(result, change):
    """Leave out what the change may change: larger logits give other probabilities; probes of the
    geometry lens are tested on the second half of the sequences. Pairs of states are named in the
    order of the elements."""
    rows = result.rows()
    if change is louder:
        rows = [row for row in rows if "where" not in row or row["metric"] != "probability"]
    if "measure" in result.columns:
        halves = ("quotient_accuracy", "parity") if change is reordered else ()
        rows = [row | {"name": named(row["name"])} for row in rows if row["measure"] not in halves]
        rows.sort(key=lambda row: str([row["measure"], row["layer"], row["name"]]))
    columns = {name: [row[name] for row in rows] for name in result.columns}
    return dataclasses.replace(result, columns=columns)


def named(name):
    return " ".join(sorted("+".join(sorted(pair.split("+"))) for pair in name.split(" ")))


@pytest.mark.parametrize("lens", LENSES)
def test_one_sequence_at_a_time_is_the_same(lens, monkeypatch):
    measure, spec = LENSES[lens]
    model, task = random_model(), task_of(SPEC)
    expected = measure(model, task, spec)
    monkeypatch.setattr(activations, "ELEMENTS", {"cpu": 1, "cuda": 1})
    monkeypatch.setattr(answers, "BATCH", {"cpu": 1, "cuda": 1})
    monkeypatch.setattr(attention_maps, "PIECE_BYTES", 1)
    monkeypatch.setattr(grid, "_sequences_that_fit", lambda *_: 1)
    assert_same(expected, measure(model, task, spec))


def reading_text(kind, padding):
    """A model that reads actions of one token (compiled) or of one to three, after padding."""
    pad, start = 7, 6
    texts = [(start,) * (action % 3 if kind == "random" else 0) + (action,) for action in range(6)]
    stride = padding + max(map(len, texts))
    actions = padded([[text] for text in texts], pad, stride)
    vocabulary = PlainText(tuple(range(6)), start, actions=actions, first=actions, pad=pad)
    model = random_model(positions=64) if kind == "random" else compile_model(SPEC)
    torch.manual_seed(0)
    model.resize_token_embeddings(8, mean_resizing=False)
    task = dataclasses.replace(task_of(SPEC), vocabulary=vocabulary)
    return HiddenPadding(model, pad).eval(), task


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("kind", MODELS)
def test_padding_means_nothing(kind, lens):
    measure, spec = LENSES[lens]
    one, other = (measure(*reading_text(kind, padding), spec) for padding in (0, 1))
    assert_same(one, other)


@pytest.mark.parametrize("lens", ["generalization", "depth", "patching", "attention", "geometry"])
def test_the_basis_of_the_residual_stream_means_nothing(lens):
    """Probes standardize every coordinate, so theirs may move by a little: see below."""
    measure, spec = LENSES[lens]
    model, task = random_model().double(), task_of(SPEC)
    assert_same(measure(model, task, spec), measure(turned(model), task, spec))


def test_and_little_for_probes():
    measure, spec = LENSES["probing"]
    model, task = random_model().double(), task_of(SPEC)
    one, other = (measure(each, task, spec) for each in (model, turned(model)))
    accuracies = [np.array(each.columns["mean"], dtype=float) for each in (one, other)]
    assert np.nanmean(np.abs(accuracies[0] - accuracies[1])) < 0.03


def test_a_change_that_means_something_is_seen():
    """Else the tests above could not fail."""
    measure, spec = LENSES["patching"]
    model, task = random_model(), task_of(SPEC)
    other, _ = relabelled(model, task)
    with pytest.raises(AssertionError):
        assert_same(measure(model, task, spec), measure(other, task, spec))
