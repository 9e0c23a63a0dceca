"""Loading is safe, and every way it can fail is one sentence."""

import json
import os
import pickle
import shutil

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from statetrace.errors import StatetraceError
from statetrace.models import ModelSpec, load_checkpoint, load_pretrained, parameter_count
from tests.models.conftest import tokens


class Sabotage:
    """Unpickling this makes a folder."""

    def __init__(self, proof):
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


LOADERS = {
    "checkpoint": load_checkpoint,
    "light": lambda folder: load_checkpoint(folder, light=True),
    "pretrained": lambda folder: load_pretrained(str(folder), 7, seed=0),
}


@pytest.fixture(params=LOADERS)
def load(request):
    return LOADERS[request.param]


@pytest.fixture
def folder(tmp_path, make_toy):
    """A good GPT-2 checkpoint, to be spoiled."""
    path = tmp_path / "good"
    make_toy("gpt2").save_pretrained(path)
    return path


def refuse(load, folder, message):
    with pytest.raises(StatetraceError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_load_checkpoint_gives_the_model_as_it_is(fast_model, dtype, tmp_path):
    fast_model.to(dtype).save_pretrained(tmp_path)
    loaded = load_checkpoint(tmp_path)
    assert not loaded.training
    assert loaded.dtype == dtype
    # Bit for bit, which takes more than equal weights: they must lie on aligned addresses.
    assert all(parameter.data_ptr() % 64 == 0 for parameter in loaded.parameters())
    with torch.no_grad():
        logits, expected = loaded(tokens(2, 9)).logits, fast_model(tokens(2, 9)).logits
    if fast_model.config.model_type == "gemma" and dtype == torch.float64:
        # Its scale is no weight: made in float32 here, in float64 where the model is loaded.
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    else:
        assert torch.equal(logits, expected)


def test_recurrent_models_are_loaded_as_they_are(recurrent_model, tmp_path):
    recurrent_model.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = recurrent_model(tokens(2, 9)).logits
        assert torch.equal(load_checkpoint(tmp_path)(tokens(2, 9)).logits, expected)


def test_loading_prints_nothing(folder, load, capfd):
    load(folder)
    assert capfd.readouterr() == ("", "")


def test_sharded_weights_are_loaded(tmp_path, make_toy):
    model = make_toy("gpt2")
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    assert not (tmp_path / "model.safetensors").exists()
    loaded = load_checkpoint(tmp_path)
    assert all(map(torch.equal, loaded.state_dict().values(), model.state_dict().values()))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickles_are_refused_and_not_opened(folder, load, name, tmp_path):
    proof = tmp_path / "opened"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps({"transformer.wte.weight": Sabotage(proof)}))
    refuse(
        load, folder, rf"only {name}, a pickle.*never loaded.*config\.json and model\.safetensors"
    )
    assert not proof.exists()


def test_a_pickle_beside_good_weights_is_not_opened(folder, load, tmp_path):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Sabotage(tmp_path / "opened")))
    load(folder)
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("model_type", ["gpt2", "sabotage"])
@pytest.mark.parametrize("auto_class", ["AutoConfig", "AutoModelForCausalLM"])
def test_remote_code_is_refused_and_not_run(folder, load, model_type, auto_class, tmp_path):
    proof = tmp_path / "ran"
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(proof)!r})\nclass Evil: pass\n")
    edit_config(folder, model_type=model_type, auto_map={auto_class: "evil.Evil"})
    refuse(load, folder, rf"its own code.*{auto_class}.*never run")
    assert not proof.exists()


def test_kernels_named_in_the_configuration_are_not_fetched(folder, load):
    edit_config(folder, attn_implementation="someone/attention", _attn_implementation="some/other")
    assert load(folder).config._attn_implementation == "sdpa"


def test_spoiled_folders_are_refused(folder, load):
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1000])
    refuse(load, folder, r"good' cannot be read \(")
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    refuse(load, folder, r"good' cannot be read \(")
    (folder / "model.safetensors").unlink()
    refuse(load, folder, "no weights in safetensors .none at all")
    (folder / "config.json").write_text('{"model_type": ')
    refuse(load, folder, r"good' cannot be read \(")
    (folder / "config.json").write_text("[1]")
    refuse(load, folder, r"good' cannot be read \(")
    (folder / "config.json").unlink()
    refuse(load, folder, r"has no config\.json")
    shutil.rmtree(folder)
    refuse(load, folder, r"no folder '.*good'.*config\.json and model\.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "no-such-model"}, "no-such-model"),
        ({"model_type": "t5"}, "cannot be read"),
        ({"n_layer": 5}, r"24 tensors are missing.*transformer\.h\.3"),
        ({"n_embd": 96}, "shape, such as 'transformer|parameters"),
        ({"n_layer": "many"}, "cannot be read"),
        ({"n_layer": 2}, r"\d+ tensors .* not in its model .*transformer\.h\.2"),
        ({"n_layer": 0}, "num_hidden_layers is 0"),
        ({"n_layer": -1}, "num_hidden_layers is -1"),
        ({"n_layer": 10**9}, "num_hidden_layers is 1000000000"),
        ({"n_embd": 10**6, "n_inner": 10**9}, r"describes [\d,]+ parameters"),
        ({"n_head": -2}, "num_attention_heads is -2"),
        ({"model_type": 5}, "model_type 5"),
        ({"auto_map": 5}, "auto_map"),
        ({"auto_map": {"\x1b[31m": "x"}}, r"'\\x1b\[31m"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantized"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(folder, load, changes, message):
    edit_config(folder, **changes)
    refuse(load, folder, message)


def test_weights_that_are_not_numbers_are_refused(folder, load):
    weights = load_file(folder / "model.safetensors")
    weights["transformer.h.1.ln_1.weight"][3] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refuse(load, folder, r"h\.1\.ln_1\.weight' has 1 ")


def test_constants_that_older_versions_stored_are_ignored(folder, load):
    weights = load_file(folder / "model.safetensors")
    weights["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    load(folder)


@pytest.mark.parametrize("shard", ["weights.bin", "../a.safetensors", "/a.safetensors", "", 5, [1]])
def test_an_index_leads_only_to_safetensors_beside_it(folder, load, shard):
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"transformer.wte.weight": shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuse(load, folder, "shards are files|cannot be read")


def test_adapters_are_refused(folder, load):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    refuse(load, folder, "adapter")


@pytest.mark.parametrize("source", ["EleutherAI/pythia-160m", "gpt2"])
def test_no_network_says_which_folder_would_do(source, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for load in (
        lambda source: load_pretrained(source, 7, seed=0),
        lambda source: parameter_count(ModelSpec("gpt2", pretrained=source), 7, 16),
    ):
        refuse(load, source, rf"'{source}'.*config\.json and model\.safetensors.*give that folder")


def test_a_hub_that_fails_says_how(monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError("name or service not known\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    refuse(
        lambda source: load_pretrained(source, 7, seed=0),
        "someone/model",
        r"no folder 'someone/model'.*\(name or service not known\); without a network",
    )


@pytest.mark.parametrize("source", ["no such/model!", "a/b/c", "./model", "/no/such/folder"])
def test_what_is_neither_a_folder_nor_a_hub_id(source):
    refuse(lambda source: load_pretrained(source, 7, seed=0), source, f"'{source}'.*hub id such")


def test_only_safetensors_and_json_are_fetched(folder, monkeypatch):
    asked = []

    def fetch(source, allow_patterns, ignore_patterns):
        asked.append((source, tuple(allow_patterns), tuple(ignore_patterns)))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    load_pretrained("someone/model", 7, seed=0)
    parameter_count(ModelSpec("gpt2", pretrained="someone/model"), 7, 16)
    weights = ("config.json", "model*.safetensors", "model.safetensors.index.json")
    assert asked == [
        ("someone/model", weights, ("*/*",)),
        ("someone/model", ("config.json",), ("*/*",)),
    ]
