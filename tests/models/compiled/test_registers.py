"""The residual stream against the programs' tables, cell by cell.

After each block the stream at a token must be a function of what the program's cell holds there,
one that tells any two contents apart: then it holds that and nothing else.
"""

from itertools import pairwise, product

import numpy as np
import pytest

from statetrace.groups import group
from statetrace.lenses.compiled import task_of
from statetrace.lenses.parts.activations import residuals
from statetrace.models.compiled import CompileSpec, compile_model
from tests.models.compiled.cases import program, program_rows, sequences

SCANS = [
    CompileSpec(algorithm="associative", length=8),
    CompileSpec(algorithm="associative", length=7, start_marker=False, basis="plain"),
    CompileSpec(algorithm="associative", length=6, before=1, between=1, after=1, heads=3),
    CompileSpec(algorithm="associative", length=5, notation="receives", parity="hidden"),
    CompileSpec(algorithm="associative", length=4, group="S4"),
    CompileSpec(algorithm="sequential", length=6),
    CompileSpec(algorithm="sequential", length=5, between=1, start_marker=False),
    CompileSpec(algorithm="sequential", length=4, group="A4", basis="plain"),
    CompileSpec(algorithm="strided", length=9, stride=2),
    CompileSpec(algorithm="chunked", length=7, stride=3, start_marker=False, between=1),
]
PARITY = [
    CompileSpec(algorithm="parity-associative", length=8),
    CompileSpec(algorithm="parity-associative", length=7, counter="average", start_marker=False),
    CompileSpec(algorithm="parity-associative", length=6, before=1, between=1, after=1),
    CompileSpec(algorithm="parity-associative", length=4, group="S4", basis="plain"),
]


def name(spec):
    return "-".join(str(part) for part in (spec.algorithm, spec.group, spec.length))


def stream_and_table(spec, n):
    """The residual stream [rows, n, T, D], the program's registers at the same rows [rows, n, T,
    R], and the sequences."""
    tried = sequences(spec, n)
    model, task = compile_model(spec), task_of(spec)
    tokens = task.encode(tried.actions)
    stream = residuals(model, tokens, range(task.vocabulary.offset, tokens.shape[1])).numpy()
    table = program(spec).run(tried.actions)
    rows = program_rows(spec)
    assert len(stream) == len(rows)
    return stream, table[rows], tried


def is_function_of(points, contents):
    """Whether points [n, D] are equal where contents [n] are, and apart where they differ."""
    _, which = np.unique(contents, return_inverse=True)
    means = np.stack([points[which == i].mean(0) for i in range(which.max() + 1)])
    away = np.linalg.norm(means[:, None] - means[None], axis=-1) + 10 * np.eye(len(means))
    return np.abs(points - means[which]).max() < 1e-3 and away.min() > 0.9


@pytest.mark.parametrize("spec", SCANS, ids=name)
def test_a_cell_holds_the_programs_register_and_nothing_else(spec):
    stream, held, _ = stream_and_table(spec, 400)
    for row, t in np.ndindex(*held.shape[::2][:2]):
        assert is_function_of(stream[row, :, t], held[row, :, t, 0]), (row, t)


@pytest.mark.parametrize("spec", SCANS, ids=name)
def test_it_is_written_alike_in_every_layer(spec):
    """A register keeps its code: what is read off layer 0 reads every other layer."""
    stream, held, _ = stream_and_table(spec, 400)
    for t in range(spec.length):
        _, first = np.unique(held[0, :, t, 0], return_index=True)
        code = stream[0, first, t]  # [order, D], by element
        assert len(code) == group(spec.group).order
        np.testing.assert_allclose(stream[:, :, t], code[held[:, :, t, 0]], atol=1e-3)


def divided(spec):
    """The first row in which the complement is held; parity is from row `before` + 1 on."""
    return spec.before + spec.between + 2


@pytest.mark.parametrize("spec", PARITY, ids=name)
def test_parity_associative_holds_parity_and_the_complement(spec):
    """And, since nothing needs to forget it, whether the action was odd."""
    stream, held, tried = stream_and_table(spec, 800)
    odd = group(spec.group).parity[tried.actions].astype(int)
    for row, t in np.ndindex(*held.shape[::2][:2]):
        rest, parity = held[row, :, t].astype(int).T
        if row < divided(spec):
            rest = tried.actions[:, t]
        contents = (odd[:, t] * 1000 + parity) * 1000 + rest
        assert is_function_of(stream[row, :, t], contents), (row, t)


@pytest.mark.parametrize("spec", PARITY, ids=name)
def test_both_are_linear(spec):
    """Read by least squares fitted on some sequences, exact on others."""
    stream, held, _ = stream_and_table(spec, 800)
    cells = [(row, 0) for row in range(divided(spec), len(held))]
    cells += [(row, 1) for row in range(spec.before + 1, len(held))]
    for (row, register), t in product(cells, (1, spec.length - 1)):
        _, contents = np.unique(held[row, :, t, register], return_inverse=True)
        expected = np.eye(contents.max() + 1)[contents]
        points = np.column_stack([stream[row, :, t], np.ones(800)]).astype(np.float64)
        weights = np.linalg.lstsq(points[:500], expected[:500], rcond=1e-4)[0]
        assert np.array_equal((points[500:] @ weights).argmax(-1), contents[500:])


@pytest.mark.parametrize("spec", PARITY, ids=name)
def test_the_complement_is_not_there_before(spec):
    """Nor parity: the readers above would fail."""
    stream, held, _ = stream_and_table(spec, 800)
    last = spec.length - 1
    for row, register in ((divided(spec) - 1, 0), (spec.before, 1)):
        contents = held[-1, :, last, register]
        assert not is_function_of(stream[row, :, last], contents)


def test_parallel_holds_parity_and_then_the_state_beside_the_action():
    spec = CompileSpec(algorithm="parallel", length=6, counter="average")
    stream, _, tried = stream_and_table(spec, 800)
    parity = group("S3").parity[tried.states].astype(int)
    for row, known in enumerate((0 * parity, parity, parity, tried.states)):
        for t in range(spec.length):
            contents = tried.actions[:, t] * 10 + known[:, t]
            assert is_function_of(stream[row, :, t], contents), (row, t)


@pytest.mark.parametrize("spec", [*SCANS, *PARITY], ids=name)
def test_spare_layers_do_nothing(spec):
    stream, _, _ = stream_and_table(spec, 50)
    still = [np.array_equal(one, two) for one, two in pairwise(stream)]
    blocks = still.count(False)
    assert blocks == program(spec).depth(spec.length) + (spec.algorithm == "parity-associative")
    assert still.count(True) == spec.before + spec.after + spec.between * (blocks - 1)


@pytest.mark.parametrize("spec", [*SCANS, *PARITY], ids=name)
def test_the_norm_is_the_same_everywhere_between_blocks(spec):
    """What makes LayerNorm linear."""
    stream, _, _ = stream_and_table(spec, 50)
    for row in stream:
        norms = np.linalg.norm(row, axis=-1)
        np.testing.assert_allclose(norms, norms.flat[0], rtol=1e-4)
        np.testing.assert_allclose(row.mean(-1), 0, atol=1e-5)
