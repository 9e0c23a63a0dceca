"""The shared tables of toy models: random weights everywhere, so that nothing is hidden by a zero
bias or a norm of ones."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import transformers

VOCAB = 7
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}
WIDE = {**SHAPE, "intermediate_size": 96}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA_3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

# Families with a file of their own, in every variant that takes another path through it.
FAST = {
    "gpt2": ("gpt2", {**SHAPE, "resid_pdrop": 0.3, "embd_pdrop": 0.3, "attn_pdrop": 0.3}),
    "gpt2-unscaled": ("gpt2", {**SHAPE, "scale_attn_weights": False}),
    "pythia": ("gpt_neox", {**WIDE, "hidden_dropout": 0.3, "attention_dropout": 0.3}),
    "pythia-sequential": ("gpt_neox", {**WIDE, "use_parallel_residual": False}),
    "pythia-all-rotary": (
        "gpt_neox",
        {**WIDE, "rope_parameters": {**ROPE, "partial_rotary_factor": 1.0}},
    ),
    "llama": ("llama", {**WIDE, "attention_dropout": 0.3}),
    "llama-grouped": ("llama", {**WIDE, "num_key_value_heads": 2}),
    "llama-3": (
        "llama",
        {
            **WIDE,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            "rope_parameters": LLAMA_3_ROPE,
        },
    ),
    "qwen": ("qwen3", {**WIDE, "num_key_value_heads": 2, "head_dim": 12, "attention_dropout": 0.3}),
    "gemma": ("gemma", {**WIDE, "num_key_value_heads": 1, "head_dim": 12, "pad_token_id": None}),
    "gemma-wide-heads": (
        "gemma",
        {**WIDE, "num_key_value_heads": 4, "head_dim": 16, "pad_token_id": None},
    ),
}

# Families without one.
GENERIC = {
    "opt": ("opt", {**SHAPE, "ffn_dim": 96, "word_embed_proj_dim": 48, "pad_token_id": None}),
    "qwen2": ("qwen2", {**WIDE, "num_key_value_heads": 2}),
    "gpt_neo": ("gpt_neo", {**WIDE, "attention_types": [[["global"], 3]]}),
    "gptj": (
        "gptj",
        {"vocab_size": VOCAB, "n_embd": 48, "n_layer": 3, "n_head": 4, "rotary_dim": 4},
    ),
}


# Families without attention: a state is carried from token to token inside a block.
RECURRENT = {
    "mamba": (
        "mamba",
        {
            "vocab_size": VOCAB,
            "hidden_size": 48,
            "num_hidden_layers": 3,
            "state_size": 4,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
        },
    ),
}


def toy(model_type: str, fields: dict[str, Any], seed: int = 0) -> Any:
    config = transformers.AutoConfig.for_model(model_type, **fields)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def tokens(batch: int, length: int, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randint(vocab, (batch, length), generator=torch.Generator().manual_seed(length))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Toy models spend longer waiting for a second thread than computing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=FAST)
def fast_model(request: pytest.FixtureRequest) -> Any:
    return toy(*FAST[request.param])


@pytest.fixture(params=GENERIC)
def generic_model(request: pytest.FixtureRequest) -> Any:
    return toy(*GENERIC[request.param])


@pytest.fixture(params=RECURRENT)
def recurrent_model(request: pytest.FixtureRequest) -> Any:
    return toy(*RECURRENT[request.param])


@pytest.fixture
def make_toy() -> Callable[[str], Any]:
    return lambda name: toy(*(FAST | GENERIC | RECURRENT)[name])
