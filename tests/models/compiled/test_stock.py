"""A compiled model is a plain GPT-2 to anyone who loads it, and the same one every time."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from statetrace.lenses.compiled import save_compiled, task_of
from statetrace.models import anatomy, load_checkpoint
from statetrace.models.compiled import CompileSpec, compile_model
from tests.models.compiled.cases import ALGORITHMS, predictions, sequences

SPECS = [
    *(CompileSpec(algorithm=name, length=8) for name in ALGORITHMS),
    CompileSpec(algorithm="composed-quotient", length=8, second="strided"),
]


def tokens(spec):
    return task_of(spec).encode(sequences(spec, 20).actions)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.title)
def test_it_loads_without_code_of_ours(spec, tmp_path):
    model = compile_model(spec)
    save_compiled(model, spec, tmp_path)
    again, info = AutoModelForCausalLM.from_pretrained(
        tmp_path, trust_remote_code=False, output_loading_info=True
    )
    assert type(again) is GPT2LMHeadModel
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        before, after = (m(tokens(spec)).logits for m in (model, again.eval()))
        ours = load_checkpoint(tmp_path)(tokens(spec)).logits
    torch.testing.assert_close(after, before, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours, before, rtol=0, atol=1e-4)
    weights = again.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_the_config_has_nothing_but_what_gpt2_has(tmp_path):
    save_compiled(compile_model(SPECS[3]), SPECS[3], tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    stock = GPT2Config(architectures=["GPT2LMHeadModel"]).to_dict()
    assert written.keys() <= stock.keys() | {"dtype", "transformers_version"}
    assert "auto_map" not in written
    assert (written["model_type"], written["architectures"]) == ("gpt2", ["GPT2LMHeadModel"])
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".safetensors"}


@pytest.mark.parametrize("basis", ["plain", "random"])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_spec_gives_the_same_bits_and_another_seed_others(name, noise, basis):
    spec, other = (
        CompileSpec(algorithm=name, length=6, noise=noise, basis=basis, after=1, seed=seed)
        for seed in (0, 1)
    )
    model, twin = compile_model(spec), compile_model(spec)
    for (key, one), two in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, two), key
    stranger = compile_model(other)
    attention, theirs = (one.transformer.h[0].attn.c_attn.weight for one in (model, stranger))
    assert not torch.allclose(attention, theirs, atol=0.01)
    tried = sequences(spec, 100)
    assert (predictions(model, spec, tried) == predictions(stranger, other, tried)).all()


def test_compiling_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    compile_model(CompileSpec(length=4, noise=0.01))
    assert torch.equal(torch.rand(3), expected)


def test_two_seeds_look_nothing_alike():
    """A random basis leaves no direction of the residual stream in place."""
    one, two = (compile_model(CompileSpec(length=8, seed=seed)) for seed in (0, 1))
    rows = [model.transformer.wte.weight for model in (one, two)]
    overlap = torch.nn.functional.cosine_similarity(*rows, dim=-1)
    assert overlap.abs().max() < 0.6
    norms = [row.norm(dim=-1) for row in rows]
    torch.testing.assert_close(norms[0], norms[1])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_marker_is_never_an_answer(name):
    spec = CompileSpec(algorithm=name, length=8, sharpness=10.0)
    with torch.no_grad():
        logits = compile_model(spec)(tokens(spec)).logits[:, 1:]
    best, second = logits.topk(2).values.unbind(-1)
    assert (logits.argmax(-1) < 6).all()
    assert (best - second > 9.9).all()  # as sharp as the spec says


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.title)
def test_the_lenses_find_their_way(spec):
    model = compile_model(spec)
    parts = anatomy(model)
    assert (parts.layers, parts.max_length) == (model.config.n_layer, 17)
    assert parts.attention_projection is not None
