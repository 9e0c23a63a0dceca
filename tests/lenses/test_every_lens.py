"""What holds for every lens: it repeats itself, leaves the model alone, reports progress up to the
end, notes a low accuracy, and its result survives the disk."""

import dataclasses
import json

import pandas as pd
import pytest
import torch

import statetrace as st
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.registry import BUILTIN
from statetrace.lenses.result import LensResult, no_progress
from statetrace.lenses.specs import (
    AttentionSpec,
    DepthSpec,
    GeneralizationSpec,
    GeometrySpec,
    PatchingSpec,
    ProbingSpec,
    SubspaceSpec,
)
from statetrace.models import ModelSpec, build
from statetrace.tasks.word_problem import word_problem
from tests.lenses.test_attention_ablation import hooks_in

QUICK = {
    "generalization": GeneralizationSpec(sequences=50, bootstrap=5),
    "probing": ProbingSpec(lengths=(4,), train=120, test=80, subsets=2),
    "patching": PatchingSpec(pairs=5),
    "depth": DepthSpec(pairs=20),
    "attention": AttentionSpec(examples=6, first=2, ablation_examples=8, ablation_sizes=(1,)),
    "geometry": GeometrySpec(sequences=200, permutations=5),
    "subspace": SubspaceSpec(sequences=200, pairs=20, train=20, steps=3, draws=1),
}


@pytest.fixture(scope="module")
def loaded():
    """With dropout, which a lens must not leave on."""
    loaded = st.compile("parity-associative", "S3", length=5, noise=0.01).loaded
    for module in loaded.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    return loaded


@pytest.mark.parametrize("name", sorted(BUILTIN.keys() - {"dynamics"}))
def test_a_lens_repeats_itself_and_its_result_survives_the_disk(name, loaded, tmp_path):
    model, task, spec = loaded.model, loaded.task, QUICK[name]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random, shares = torch.random.get_rng_state(), []
    first = BUILTIN[name].look(model.train(), task, spec, shares.append)
    assert model.training
    assert hooks_in(model) == 0
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    BUILTIN[name].look(model.eval(), task, spec).save(tmp_path)
    again = LensResult.load(tmp_path, name)
    pd.testing.assert_frame_equal(again.to_pandas(), first.to_pandas())
    assert again.spec == json.loads(json.dumps(first.spec, default=dataclasses.asdict))
    assert (again.summary, again.notes) == (first.summary, first.notes)
    assert again.arrays.keys() == first.arrays.keys()
    for key, array in first.arrays.items():
        torch.testing.assert_close(again.arrays[key], array, rtol=0, atol=0, equal_nan=True)
    assert not any("low accuracy" in note for note in first.notes)


@pytest.mark.parametrize("name", sorted(QUICK.keys() - {"subspace"}))  # it needs correct answers
def test_a_model_that_learned_nothing_is_noted(name):
    model = build(ModelSpec("gpt2", layers=2, width=16, heads=2), 7, 12, seed=0)
    result = BUILTIN[name].look(model, word_problem("S3", 5), QUICK[name], no_progress)
    assert any("low accuracy" in note for note in result.notes)


@pytest.mark.parametrize("spec", [*(lens.spec for lens in BUILTIN.values()), GridSpec])
def test_every_setting_has_a_help_text(spec):
    for field in dataclasses.fields(spec):
        text = field.metadata["help"]
        assert text.endswith(".")
        assert len(text.split()) > 1
