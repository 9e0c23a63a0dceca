"""What the verdict does not rank: quotients composed first, folds, tables, two circuits in one."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.compiled import check_compiled, task_of
from statetrace.lenses.parts.activations import residuals
from statetrace.lenses.patching import patching
from statetrace.lenses.specs import PatchingSpec
from statetrace.mechanisms.signatures import signature
from statetrace.models.compiled import CompileSpec, compile_model
from tests.models.compiled.cases import accuracy, sequences

EXHAUSTIVE = [
    *(("composed-quotient", of, n, {}) for of, n in (("S3", 5), ("S4", 2), ("D4", 4), ("A4", 3))),
    ("composed-quotient", "S4", 2, {"quotient": "S3"}),
    ("strided", "S3", 5, {"stride": 2}),
    ("chunked", "S3", 5, {"stride": 3}),
    *(("lookup", of, n, {}) for of, n in (("S3", 4), ("A4", 2), ("Z2", 8), ("S3", 1))),
    *(("associative", "S3", 4, {"second": other, "share": share})
      for other, share in (("parallel", 0.1), ("sequential", 0.5), ("lookup", 0.9))),
    ("parity-associative", "S3", 4, {"second": "parallel", "share": 0.3}),
    ("parallel", "S4", 2, {"second": "composed-quotient", "share": 0.0}),
]  # fmt: skip
OPTIONS = [
    {"start_marker": False, "notation": "receives", "reach": 5, "heads": 1, "sharpness": 1.0},
    {"before": 1, "between": 2, "after": 1, "heads": 4, "basis": "plain"},
]


@pytest.mark.parametrize(("name", "of", "length", "settings"), EXHAUSTIVE)
def test_every_sequence(name, of, length, settings):
    spec = CompileSpec(group=of, algorithm=name, length=length, **settings)
    right, tried, exhaustive = check_compiled(compile_model(spec), spec, 50_000)
    assert (right, exhaustive) == (1.0, True)
    assert tried > 5


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "composed-quotient", "group": "A4"},
        {"algorithm": "strided", "stride": 2, "group": "A5"},
        {"algorithm": "chunked", "stride": 2},
        {"algorithm": "lookup", "length": 3},
        {"algorithm": "parallel", "second": "strided", "share": 0.7},
    ],
)
def test_no_option_changes_the_answers(settings, options):
    assert accuracy(CompileSpec(**{"length": 5} | settings | options), random=100) == 1.0


@pytest.mark.parametrize(
    ("name", "depths"),
    [
        ("composed-quotient", {2: 3, 8: 7, 9: 9, 32: 11}),  # one block divides
        ("strided", {4: 2, 16: 5, 17: 6, 32: 9}),
        ("chunked", {4: 3, 16: 6, 17: 7, 32: 10}),
        ("lookup", {1: 1, 3: 1}),
    ],
)
def test_depth(name, depths):
    """Twice log2 n; log2 of the stride and n / stride; stride and n / stride; one."""
    models = {n: compile_model(CompileSpec(algorithm=name, length=n, reach=n)) for n in depths}
    assert {n: model.config.n_layer for n, model in models.items()} == depths


def logits(spec, actions):
    with torch.no_grad():
        return compile_model(spec)(task_of(spec).encode(actions)).logits


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    ("first", "second"),
    [("associative", "sequential"), ("parallel", "parity-associative"), ("strided", "parallel")],
)
def test_logits_are_shared(first, second, share):
    """Corrupted activations make the circuits disagree, so the share shows there as well."""
    spec = CompileSpec(algorithm=first, length=6, second=second, share=share, sharpness=4.0)
    actions = sequences(spec, 30).actions
    alone = [CompileSpec(algorithm=name, length=6, sharpness=4.0) for name in (first, second)]
    one, two = (logits(each, actions) for each in alone)
    expected = (1 - share) * one + share * two
    torch.testing.assert_close(logits(spec, actions), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_patched_prefix_restores_each_circuit_where_its_own_front_is(share):
    """Cell by cell: both give the clean or the corrupted answer, and the NLD is that of each times
    its share."""
    spec = CompileSpec(algorithm="associative", second="sequential", share=share, length=8)
    asked = PatchingSpec(pairs=30, grids=(GridSpec("prefix", "substitution"),))
    measured = patching(compile_model(spec), task_of(spec), asked)
    nld = measured.arrays["prefix-substitution-resid.nld"].mean(-1)
    scan, chain = (
        signature(name, "S3", 8, layers=7, pairs=30).patching["prefix", "all"]
        for name in ("associative", "sequential")
    )
    np.testing.assert_allclose(nld, (1 - share) * scan + share * chain, atol=0.01)
    assert len(np.unique(nld.round(2))) == 3


def decodable(spec, row):
    """Share of sequences whose parity a linear probe of the last token reads."""
    drawn, task = sequences(spec, 600), task_of(spec)
    stream = residuals(compile_model(spec), task.encode(drawn.actions), [8])
    points = np.column_stack([stream[row, :, 0].numpy(), np.ones(600)]).astype(np.float64)
    parity = task.group.parity[drawn.states[:, -1]].astype(float)
    weights = np.linalg.lstsq(points[:400], parity[:400], rcond=1e-4)[0]
    return ((points[400:] @ weights > 0.5) == parity[400:]).mean()


def test_an_inert_circuit_is_computed():
    """Parity is there after its first block, long before the state, and nothing reads it."""
    plain = CompileSpec(algorithm="associative", length=8)
    inert = CompileSpec(algorithm="associative", length=8, second="parallel", share=0.0)
    assert decodable(inert, 1) == 1.0
    assert decodable(plain, 1) < 0.7


REFUSED = [
    ({"algorithm": "lookup", "length": 6}, "S3 at length 6 has 46,656 rows.*use length 5 or less"),
    ({"algorithm": "lookup", "group": "S5", "length": 1}, "S5 has 120 elements, too many"),
    ({"algorithm": "strided", "stride": 3}, "stride 3 is not supported; use a power of two"),
    ({"algorithm": "chunked", "stride": 0}, "stride 0 must be a whole number, 1 or more"),
    ({"algorithm": "composed-quotient", "group": "A5"}, "A5 has no quotient to compose first"),
    ({"algorithm": "composed-quotient", "quotient": "Z3"}, "S3 has no quotient 'Z3'"),
    ({"second": "magic"}, "second 'magic' is unknown"),
    ({"second": "parallel", "share": 1.0}, r"share 1\.0 must be at least 0 and less than 1"),
    ({"second": "parallel", "parity": "hidden"}, "in parallel parity is always readable"),
    ({"second": "parity-associative", "group": "A4"}, "no parity-associative algorithm"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refused(settings, message):
    with pytest.raises(StatetraceError, match=message):
        compile_model(CompileSpec(**settings))
