"""Every lens that runs the model gives the same numbers on a GPU as on the CPU.

The tests that always run are beside this file.
"""

import copy
import math

import pytest
import torch

from statetrace.lenses.registry import LENSES, make_spec
from statetrace.models import ModelSpec, build
from statetrace.tasks.word_problem import word_problem

SETTINGS = {
    "generalization": {"sequences": "64", "bootstrap": "10"},
    "probing": {"train": "800", "test": "200", "subsets": "2"},
    "patching": {"pairs": "12"},
    "attention": {"examples": "8"},
    "geometry": {"sequences": "256", "permutations": "20"},
    "subspace": {"sequences": "4000", "pairs": "400", "methods": "means"},
}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("lens", SETTINGS)
def test_the_same_numbers_on_a_gpu(lens):
    task = word_problem("S3", 6)
    model = build(
        ModelSpec("gpt2", layers=2, width=32, heads=4, init_std=0.2), task.vocabulary.size, 32, 0
    )
    spec = make_spec(lens, SETTINGS[lens])
    here = LENSES[lens].look(model, task, spec)
    there = LENSES[lens].look(copy.deepcopy(model).to("cuda"), task, spec)
    mine, theirs = here.rows(), there.rows()
    assert len(mine) == len(theirs) > 0
    for row, expected in zip(mine, theirs, strict=True):
        assert row.keys() == expected.keys()
        for name, value in row.items():
            if isinstance(value, float) and not math.isnan(value):
                assert expected[name] == pytest.approx(value, abs=0.02, rel=0.02), (name, row)
