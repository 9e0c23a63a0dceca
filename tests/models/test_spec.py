"""A ModelSpec that exists can be built; everything else is refused by name."""

import pytest

from statetrace.errors import StatetraceError
from statetrace.models import ModelSpec, model_names

REFUSED = [
    ({"name": "gpt3"}, r"'gpt3'.*distilgpt2, gpt2, .*pythia-12b.*llama"),
    ({"name": "pythia-160M"}, "'pythia-160M'"),
    ({"name": None}, "unknown model None"),
    ({"name": "gpt2", "layers": 0}, "layers = 0"),
    ({"name": "gpt2", "layers": 2.0}, r"layers = 2\.0"),
    ({"name": "gpt2", "layers": True}, "layers = True"),
    ({"name": "gpt2", "width": -64}, "width = -64"),
    ({"name": "gpt2", "heads": "4"}, "heads = '4'"),
    ({"name": "gpt2", "width": 64}, r"width 64.*12 heads.*1, 2, 4, 8, 16, 32 or 64 heads"),
    ({"name": "gpt2", "heads": 5}, "width 768.*5 heads"),
    ({"name": "pythia", "width": 60, "heads": 10}, "heads of width 6.*multiple of 4"),
    ({"name": "llama", "width": 15, "heads": 5}, "heads of width 3.*multiple of 2"),
    ({"name": "mamba", "heads": 4}, "heads = 4.*mamba is recurrent and has none"),
    ({"name": "mamba", "dropout": 0.1}, r"dropout = 0\.1.*mamba has none"),
    ({"name": "gpt2", "dropout": 1.0}, r"dropout = 1\.0"),
    ({"name": "gpt2", "dropout": -0.1}, r"dropout = -0\.1"),
    ({"name": "gpt2", "dropout": float("nan")}, "dropout = nan"),
    ({"name": "gpt2", "dropout": "0.1"}, r"dropout = '0\.1'"),
    ({"name": "gpt2", "pretrained": ""}, "pretrained = ''"),
    ({"name": "gpt3", "pretrained": "a/b"}, "unknown model 'gpt3'; leave it out.*'a/b'"),
    ({"name": "gpt2", "pretrained": "a/b", "width": 64}, "width = 64.*pretrained = 'a/b'"),
    ({"name": "gpt2", "pretrained": "a/b", "layers": 2, "heads": 2}, "layers = 2, heads = 2"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_nonsense_is_refused_with_the_bad_value(settings, message):
    with pytest.raises(StatetraceError, match=message):
        ModelSpec(**settings)


@pytest.mark.parametrize("name", model_names())
def test_every_name_is_accepted(name):
    spec = ModelSpec(name)
    assert spec.size.width % spec.size.heads == 0


def test_published_sizes_are_all_there():
    pythia = ["14m", "31m", "70m", "160m", "410m", "1b", "1.4b", "2.8b", "6.9b", "12b"]
    expected = {"distilgpt2", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "pythia", "llama"}
    assert expected | {f"pythia-{size}" for size in pythia} <= set(model_names())


def test_overrides():
    size = ModelSpec("pythia-70m", layers=4, width=64, heads=4).size
    assert (size.layers, size.width, size.heads, size.positions) == (4, 64, 4, 2048)
    deeper = ModelSpec("llama-3.2-1b", layers=2).size
    assert (deeper.layers, deeper.kv_heads, deeper.mlp_width) == (2, 8, 8192)
    wider = ModelSpec("llama-3.2-1b", width=512).size
    assert (wider.kv_heads, wider.mlp_width) == (None, None)
    narrower = ModelSpec("gemma-2b", width=64)
    assert narrower.size.head_width is None
    assert narrower.family.config(narrower.size, 7, 16, 0.0).head_dim == 8
    assert ModelSpec("mamba", layers=2, width=32, dropout=0.0).size.width == 32


def test_pretrained_takes_its_own_name_as_label_and_has_no_size():
    spec = ModelSpec("facebook/opt-125m", pretrained="facebook/opt-125m")
    with pytest.raises(StatetraceError, match="in its checkpoint"):
        _ = spec.size
