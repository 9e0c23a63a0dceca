"""Models without transformers compute what those of transformers do, or are left to it."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from statetrace.models import anatomy, load_checkpoint
from statetrace.models.plain import PlainModel, plain
from tests.models.conftest import SHAPE, WIDE, tokens, toy

RELU = {**SHAPE, "activation_function": "relu", "tie_word_embeddings": False, "n_inner": 32}
PLAIN = {
    "gpt2": ("gpt2", SHAPE),
    "gpt2-untied": ("gpt2", RELU),
    "pythia": ("gpt_neox", WIDE),
    "pythia-sequential": ("gpt_neox", {**WIDE, "use_parallel_residual": False}),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_logits_and_pieces_are_those_of_transformers(name, dtype, tmp_path):
    toy(*PLAIN[name]).to(dtype).save_pretrained(tmp_path)
    light, usual = load_checkpoint(tmp_path, light=True), load_checkpoint(tmp_path)
    assert isinstance(light, PlainModel)
    assert not isinstance(usual, PlainModel)
    ours, theirs = anatomy(light), anatomy(usual)
    assert type(ours) is type(theirs)
    assert ours.max_length == theirs.max_length
    inputs = tokens(2, 9)
    with torch.no_grad():
        logits = light(input_ids=inputs, use_cache=False).logits
        torch.testing.assert_close(logits, usual(inputs).logits, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            ours.attention_weights(inputs), theirs.attention_weights(inputs), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("name", "changes"),
    {
        "gpt2": {"scale_attn_by_inverse_layer_idx": True},
        "gpt2 ": {"activation_function": "silu"},
        "gpt2  ": {"n_layer": 2},
        "gpt2   ": {"dtype": "float64"},
        "gpt2    ": {"n_layer": 10**9},
        "pythia": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
        "pythia ": {"attention_bias": False},
        "pythia  ": {"model_type": "llama"},
    }.items(),
)
def test_other_settings_are_left_to_transformers(name, changes, tmp_path):
    toy(*PLAIN[name.strip()]).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    assert plain(tmp_path) is None


@pytest.mark.parametrize("damage", ["missing", "infinite", "foreign", "other head"])
def test_other_weights_are_left_to_transformers(damage, tmp_path):
    toy(*PLAIN["gpt2"]).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    if damage == "missing":
        del tensors["transformer.ln_f.bias"]
    elif damage == "infinite":
        tensors["transformer.ln_f.bias"][0] = torch.inf
    elif damage == "foreign":
        tensors["transformer.ln_g.bias"] = torch.ones(3)
    else:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + 1
    save_file(tensors, file, {"format": "pt"})
    assert plain(tmp_path) is None


@pytest.mark.new_interpreter
def test_a_verdict_imports_neither_transformers_nor_the_compiler(tmp_path):
    check = (
        "import sys; from statetrace.cli import main\n"
        "sys.argv = ['statetrace', 'verdict', 'zoo:s3-rotary', '--fast', '--json']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'transformers', 'torch._dynamo', 'pandas', 'scipy'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", check]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines()[-1] == "set()"
