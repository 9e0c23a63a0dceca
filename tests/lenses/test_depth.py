"""Layers needed by length, on models whose answer is known and against hooks."""

import numpy as np
import pytest

from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.lenses.compiled import task_of
from statetrace.lenses.depth import depth
from statetrace.lenses.parts.lengths import usual_lengths
from statetrace.lenses.specs import DepthSpec
from statetrace.models.compiled import compile_model

LENGTHS = (2, 3, 4, 6, 8)
LAWS = {
    # algorithm -> layers needed by pairs of the same and of opposite parity
    "sequential": ([1, 2, 3, 5, 7], [1, 2, 3, 5, 7]),
    "associative": ([1, 2, 2, 3, 3], [1, 2, 2, 3, 3]),
    "parity-associative": ([3, 4, 4, 5, 5], [1, 1, 1, 1, 1]),
    "composed-quotient": ([5, 6, 6, 7, 7], [1, 2, 2, 3, 3]),
    "strided": ([1, 2, 2, 3, 4], [1, 2, 2, 3, 4]),
}


def needed(result, split):
    return result.summary["layers_needed"][split]


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("algorithm", list(LAWS))
def test_the_law_of_each_algorithm(algorithm, marker):
    spec = CompileSpec(algorithm=algorithm, length=8, start_marker=marker, stride=2)
    result = depth(compile_model(spec), task_of(spec), DepthSpec(pairs=60))
    assert result.summary["lengths"] == list(LENGTHS)
    same, opposite = LAWS[algorithm]
    assert needed(result, "same parity") == pytest.approx(same, abs=0.05)
    assert needed(result, "opposite parity") == pytest.approx(opposite, abs=0.05)


def test_counting_settles_every_length_at_once():
    spec = CompileSpec(algorithm="parallel", length=8, counter="average")
    result = depth(compile_model(spec), task_of(spec), DepthSpec(pairs=60))
    assert needed(result, "opposite parity") == pytest.approx([1] * 5, abs=0.05)
    assert np.ptp(needed(result, "same parity")) < 0.7
    assert min(needed(result, "same parity")) > 2


def test_spare_layers_are_counted_where_they_are():
    spec = CompileSpec(length=8, before=1, between=1, after=2)
    result = depth(compile_model(spec), task_of(spec), DepthSpec(lengths=(2, 8), pairs=40))
    assert needed(result, "all") == pytest.approx([2, 6], abs=0.05)


def test_a_group_without_parity_has_one_curve():
    spec = CompileSpec(group="A5", length=4)
    result = depth(compile_model(spec), task_of(spec), DepthSpec(pairs=40))
    assert list(result.summary["layers_needed"]) == ["all"]


def test_lengths():
    assert usual_lengths(16) == (2, 3, 4, 6, 8, 12, 16)
    assert usual_lengths(20) == (2, 3, 4, 6, 8, 12, 16, 20)
    assert usual_lengths(2) == (2,)
    with pytest.raises(StatetraceError, match=r"\(1, 4\)"):
        DepthSpec(lengths=(1, 4))
