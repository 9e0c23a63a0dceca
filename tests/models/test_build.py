"""Models from scratch: published sizes, the task's vocabulary, a seed."""

import pytest
import torch
import transformers

from statetrace.errors import StatetraceError
from statetrace.models import ModelSpec, anatomy, build, parameter_count
from tests.models.conftest import tokens

SMALL = {"layers": 2, "width": 32, "heads": 4}
TRANSFORMERS = ("gpt2", "pythia", "llama", "qwen", "gemma")
FAMILIES = (*TRANSFORMERS, "mamba")


def small(name):
    """A family at toy size."""
    sizes = {k: v for k, v in SMALL.items() if name in TRANSFORMERS or k != "heads"}
    return ModelSpec(name, **sizes)


# Published vocabulary, total and non-embedding parameters. GPT-2 and those after Pythia: the
# sizes of the checkpoints on the hub. Pythia: Table 1 of its paper, where non-embedding means the
# blocks and the final norm (not the unembedding), and its repository's table for 14m and 31m.
PUBLISHED = [
    ("distilgpt2", 50257, 81_912_576, None),
    ("gpt2", 50257, 124_439_808, None),
    ("gpt2-medium", 50257, 354_823_168, None),
    ("gpt2-large", 50257, 774_030_080, None),
    ("gpt2-xl", 50257, 1_557_611_200, None),
    ("pythia-14m", 50304, 14_067_712, 1_189_888),
    ("pythia-31m", 50304, 30_494_720, 4_739_072),
    ("pythia-70m", 50304, 70_426_624, 18_915_328),
    ("pythia-160m", 50304, 162_322_944, 85_056_000),
    ("pythia-410m", 50304, 405_334_016, 302_311_424),
    ("pythia-1b", 50304, 1_011_781_632, 805_736_448),
    ("pythia-1.4b", 50304, 1_414_647_808, 1_208_602_624),
    ("pythia-2.8b", 50304, 2_775_208_960, 2_517_652_480),
    ("pythia-6.9b", 50432, 6_857_302_016, 6_444_163_072),
    ("pythia-12b", 50688, 11_846_072_320, 11_327_027_200),
    ("llama-2-7b", 32000, 6_738_415_616, None),
    ("llama-3.2-1b", 128256, 1_235_814_400, None),
    ("llama-3.2-3b", 128256, 3_212_749_824, None),
    ("qwen3-0.6b", 151936, 596_049_920, None),
    ("qwen3-1.7b", 151936, 1_720_574_976, None),
    ("gemma-2b", 256000, 2_506_172_416, None),
    ("gemma-7b", 256000, 8_537_680_896, None),
    ("mamba-130m", 50280, 129_135_360, None),
    ("mamba-370m", 50280, 371_516_416, None),
    ("mamba-790m", 50280, 793_204_224, None),
    ("mamba-1.4b", 50280, 1_372_178_432, None),
    ("mamba-2.8b", 50280, 2_768_345_600, None),
]


@pytest.mark.parametrize(("name", "vocab", "total", "non_embedding"), PUBLISHED)
def test_sizes_are_the_published_ones(name, vocab, total, non_embedding):
    spec = ModelSpec(name)
    count = parameter_count(spec, vocab_size=vocab, max_length=16)
    assert count.total == total
    if non_embedding is not None:
        final_norm = 2 * spec.size.width
        assert count.blocks + final_norm == non_embedding


@pytest.mark.parametrize(
    ("name", "per_block"),
    [("gpt2", 7_087_872), ("gpt2-medium", 12_596_224), ("gpt2-xl", 30_740_800)],
)
def test_gpt2_blocks(name, per_block):
    """12 width² + 13 width: four projections, an MLP of 4 width, biases and two norms."""
    spec = ModelSpec(name)
    assert parameter_count(spec, 7, 16).blocks == spec.size.layers * per_block


PUBLISHED_FIELDS = {
    "gpt2-medium": {
        "n_inner": 4096,
        "activation_function": "gelu_pytorch_tanh",
        "n_positions": 1024,
        "tie_word_embeddings": True,
        "resid_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "attn_pdrop": 0.1,
        "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02,
    },
    "pythia-160m": {
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "layer_norm_eps": 1e-5,
        "initializer_range": 0.02,
    },
    "llama-3.2-1b": {
        "intermediate_size": 8192,
        "hidden_act": "silu",
        "max_position_embeddings": 131072,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5,
    },
    "qwen3-0.6b": {
        "intermediate_size": 3072,
        "max_position_embeddings": 40960,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
    },
    "gemma-2b": {
        "intermediate_size": 16384,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "tie_word_embeddings": True,
    },
    "mamba-130m": {
        "state_size": 16,
        "intermediate_size": 1536,
        "time_step_rank": 48,
        "conv_kernel": 4,
        "initializer_range": 0.1,
        "tie_word_embeddings": True,
    },
    "llama-2-7b": {"intermediate_size": 11008, "num_key_value_heads": 32, "rms_norm_eps": 1e-5},
}


@pytest.mark.parametrize("name", PUBLISHED_FIELDS)
def test_configuration_is_the_published_one(name):
    config = build_config(ModelSpec(name))
    assert {field: getattr(config, field) for field in PUBLISHED_FIELDS[name]} == (
        PUBLISHED_FIELDS[name]
    )


def build_config(spec):
    return spec.family.config(spec.size, 7, spec.size.positions, spec.family.dropout)


def test_pythia_rotates_a_quarter_of_each_head():
    config = build_config(ModelSpec("pythia-160m"))
    assert config.rope_parameters["partial_rotary_factor"] == 0.25
    assert config.rope_parameters["rope_theta"] == 10000


@pytest.mark.parametrize("name", FAMILIES)
def test_build_follows_the_seed_and_leaves_the_global_one_alone(name):
    spec = small(name)
    torch.manual_seed(5)
    expected_next = torch.rand(3)
    torch.manual_seed(5)
    first = build(spec, vocab_size=7, max_length=20, seed=1).state_dict()
    assert torch.equal(torch.rand(3), expected_next)
    again = build(spec, vocab_size=7, max_length=20, seed=1).state_dict()
    other = build(spec, vocab_size=7, max_length=20, seed=2).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gpt2", 1024),
        ("pythia", 2048),
        ("llama", 2048),
        ("qwen", 2048),
        ("gemma", 2048),
        ("mamba", None),
    ],
)
def test_built_model_fits_the_task(name, published, tmp_path):
    model = build(small(name), vocab_size=7, max_length=20, seed=0)
    assert not model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.get_input_embeddings().weight.shape == (7, 32)
    assert model.get_output_embeddings().weight.shape == (7, 32)
    assert getattr(model.config, "max_position_embeddings", None) == published
    if name in TRANSFORMERS:
        assert model.config._attn_implementation == "sdpa"
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    for config in (model.config, loaded.config, model.generation_config, loaded.generation_config):
        assert config.bos_token_id is config.eos_token_id is config.pad_token_id is None
    with torch.no_grad():
        logits = model(tokens(3, 20)).logits
        assert logits.shape == (3, 20, 7)
        assert torch.equal(loaded.eval()(tokens(3, 20)).logits, logits)


@pytest.mark.parametrize("name", FAMILIES)
def test_positions_grow_with_the_task(name):
    model = build(small(name), vocab_size=7, max_length=3000, seed=0)
    assert getattr(model.config, "max_position_embeddings", 3000) == 3000
    assert anatomy(model).max_length in (3000, None)
    with torch.no_grad():
        assert model(tokens(1, 3000)).logits.isfinite().all()


def test_parameter_count_is_that_of_the_built_model():
    for name in FAMILIES:
        spec = small(name)
        model = build(spec, vocab_size=121, max_length=20, seed=0)
        count = parameter_count(spec, vocab_size=121, max_length=20)
        assert count.total == sum(parameter.numel() for parameter in model.parameters())
        assert 0 < count.blocks < count.total


@pytest.mark.parametrize(("dropout", "expected"), [(None, 0.1), (0.0, 0.0), (0.25, 0.25)])
def test_dropout_is_the_published_one_unless_given(dropout, expected):
    model = build(ModelSpec("gpt2", dropout=dropout, **SMALL), 7, 20, seed=0)
    dropouts = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert dropouts == {expected}


@pytest.mark.parametrize(
    ("vocab_size", "max_length", "message"),
    [(0, 16, "vocab_size 0"), (7, 0, "max_length 0"), (7.5, 16, r"vocab_size .* not 7\.5")],
)
def test_impossible_shapes_are_refused(vocab_size, max_length, message):
    for function in (parameter_count, lambda *args: build(*args, seed=0)):
        with pytest.raises(StatetraceError, match=message):
            function(ModelSpec("gpt2", **SMALL), vocab_size, max_length)


def test_the_activation_is_the_published_one():
    """Under another name, because that one runs as a single kernel."""
    x = torch.linspace(-6, 6, 1001, dtype=torch.float64)
    published, ours = (
        transformers.activations.ACT2FN[n] for n in ("gelu_new", "gelu_pytorch_tanh")
    )
    torch.testing.assert_close(ours(x), published(x), atol=1e-12, rtol=0)


def test_the_spread_of_the_initial_weights():
    wide, usual = (
        build(ModelSpec("gpt2", layers=1, width=64, heads=2, init_std=std), 7, 16, seed=0)
        for std in (0.1, None)
    )
    ratio = (
        wide.transformer.h[0].mlp.c_fc.weight.std() / usual.transformer.h[0].mlp.c_fc.weight.std()
    )
    assert ratio.item() == pytest.approx(5, rel=0.01)
    with pytest.raises(StatetraceError, match=r"init_std = -1"):
        ModelSpec("gpt2", init_std=-1)
    with pytest.raises(StatetraceError, match=r"init_std = 0.1 cannot be chosen with pretrained"):
        ModelSpec("gpt2", init_std=0.1, pretrained="somewhere")
