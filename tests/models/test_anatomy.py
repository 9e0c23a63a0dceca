"""Reading a model through its Anatomy is reading the model."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from statetrace.errors import StatetraceError
from statetrace.models import anatomy, causal_mask
from tests.models.conftest import VOCAB, WIDE, tokens, toy

SHAPES = [(1, 1), (2, 2), (3, 17), (5, 64)]


def hidden_states(model: Any, inputs: Tensor) -> list[Tensor]:
    """Embedding and every block's output; transformers gives the last one only after the norm."""
    return list(model(inputs, output_hidden_states=True).hidden_states[:-1])


def capture(modules: tuple[nn.Module, ...], run: Callable[[], Any]) -> tuple[list, list]:
    """First positional input and (first) output of every module during run()."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def hook(module: nn.Module, args: tuple, output: Any) -> None:
        inputs.append(args[0] if args else None)
        outputs.append(output[0] if isinstance(output, tuple) else output)

    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return inputs, outputs


@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_forward_is_the_untouched_model_bit_for_bit(fast_model, dtype, use_cache):
    model = fast_model.to(dtype)
    reader = anatomy(model)
    assert reader.fast
    for batch, length in SHAPES:
        inputs = tokens(batch, length)
        logits = reader.forward(inputs)
        assert logits.shape == (batch, length, VOCAB)
        assert torch.equal(logits, model(inputs, use_cache=use_cache).logits), (batch, length)


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama-grouped"])
@torch.no_grad()
def test_forward_is_bit_equal_on_several_threads(make_toy, name):
    torch.set_num_threads(2)
    model = make_toy(name)
    inputs = tokens(32, 60)
    assert torch.equal(anatomy(model).forward(inputs), model(inputs).logits)


@torch.no_grad()
def test_weights_matter_to_that_comparison(make_toy):
    """The test above can fail: one changed weight in a late block changes the logits."""
    model = make_toy("pythia")
    before = anatomy(model).forward(tokens(2, 9))
    model.gpt_neox.layers[2].mlp.dense_4h_to_h.bias[0] += 0.1
    assert not torch.equal(before, anatomy(model).forward(tokens(2, 9)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@torch.no_grad()
def test_forward_is_the_untouched_model_on_cuda(fast_model, dtype):
    model = fast_model.to("cuda", dtype)
    for batch, length in SHAPES:
        inputs = tokens(batch, length).cuda()
        assert torch.equal(anatomy(model).forward(inputs), model(inputs).logits), (batch, length)


@torch.no_grad()
def test_attention_weights_are_those_of_eager_attention(fast_model):
    eager = copy.deepcopy(fast_model)
    eager.set_attn_implementation("eager")
    inputs = tokens(3, 11)
    expected = torch.stack(eager(inputs, output_attentions=True).attentions)
    weights = anatomy(fast_model).attention_weights(inputs)
    assert weights.shape == (3, 3, 4, 11, 11)
    torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)
    assert fast_model.config._attn_implementation == "sdpa"


@torch.no_grad()
def test_block_outputs_are_the_residual_stream(fast_model):
    inputs = tokens(2, 9)
    reader = anatomy(fast_model)
    block_in, block_out = capture(reader.blocks, lambda: fast_model(inputs))
    states = hidden_states(fast_model, inputs)
    assert torch.equal(block_in[0], states[0])
    assert torch.equal(reader.embed(inputs), states[0])
    for output, expected in zip(block_out[:-1], states[1:], strict=True):
        assert torch.equal(output, expected)
    assert torch.equal(reader.unembed(block_out[-1]), fast_model(inputs).logits)


@torch.no_grad()
def test_hook_points_and_pieces_are_the_same_thing(fast_model):
    inputs = tokens(2, 9)
    reader = anatomy(fast_model)
    resid, resid_post = capture(reader.blocks, lambda: fast_model(inputs))
    _, attn_out = capture(reader.attention, lambda: fast_model(inputs))
    _, mlp_out = capture(reader.mlp, lambda: fast_model(inputs))
    z, projected = capture(reader.attention_projection, lambda: fast_model(inputs))
    positions = torch.arange(9)
    for layer in range(reader.layers):
        q, k, v = reader.qkv(layer, resid[layer], positions)
        assert q.shape == (2, reader.heads, 9, reader.head_width)
        assert k.shape == v.shape == (2, reader.n_kv_heads, 9, reader.head_width)
        assert torch.equal(reader.attend(layer, q, k, v), z[layer])
        assert z[layer].shape == (2, 9, reader.heads * reader.head_width)
        assert torch.equal(projected[layer], attn_out[layer])  # dropout is off
        assert torch.equal(reader.attn_out(layer, z[layer]), attn_out[layer])
        output = reader.mlp_out(layer, resid[layer], attn_out[layer])
        assert torch.equal(output, mlp_out[layer])
        parts = (resid[layer], attn_out[layer], mlp_out[layer])
        assert torch.equal(reader.combine(layer, *parts), resid_post[layer])
        torch.testing.assert_close(sum(parts), resid_post[layer])


@torch.no_grad()
def test_some_positions_are_a_slice_of_all(fast_model):
    """What lets the patching engine recompute only the positions that can change."""
    model = fast_model.double()
    reader = anatomy(model)
    inputs = tokens(2, 12)
    every, some = torch.arange(12), torch.tensor([4, 7, 11])
    torch.testing.assert_close(
        reader.embed(inputs[:, some], some), reader.embed(inputs)[:, some], atol=0, rtol=0
    )
    resid = reader.embed(inputs)
    for layer in range(reader.layers):
        q, k, v = reader.qkv(layer, resid, every)
        for part, full in zip(reader.qkv(layer, resid[:, some], some), (q, k, v), strict=True):
            torch.testing.assert_close(part, full[:, :, some], atol=1e-12, rtol=0)
        mask = causal_mask(some, every)
        z = reader.attend(layer, q, k, v)
        part = reader.attend(layer, q[:, :, some], k, v, mask)
        torch.testing.assert_close(part, z[:, some], atol=1e-12, rtol=0)
        one = reader.attend(layer, q[:, :, 4:5], k, v, causal_mask(every[4:5], every))
        torch.testing.assert_close(one, z[:, 4:5], atol=1e-12, rtol=0)
        weights = reader.pattern(layer, q, k)
        part = reader.pattern(layer, q[:, :, some], k, mask)
        torch.testing.assert_close(part, weights[:, :, some], atol=1e-12, rtol=0)
        v = v.repeat_interleave(reader.heads // reader.n_kv_heads, dim=1)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        torch.testing.assert_close(mixed, z, atol=1e-12, rtol=0)
        resid = reader.block(layer, resid, every)


def test_attending_to_other_positions_needs_a_mask(make_toy):
    reader = anatomy(make_toy("gpt2"))
    q, k, v = reader.qkv(0, reader.embed(tokens(1, 5)), torch.arange(5))
    for queries in (q[:, :, 4:], q[:, :, 2:]):
        with pytest.raises(StatetraceError, match=r"5 keys.*causal_mask"):
            reader.attend(0, queries, k, v)


@pytest.mark.parametrize(
    ("name", "kv_heads", "max_length"),
    [
        ("gpt2", 4, 64),
        ("pythia", 4, None),
        ("llama", 4, None),
        ("llama-grouped", 2, None),
        ("qwen", 2, None),
        ("gemma", 1, None),
    ],
)
def test_dimensions(make_toy, name, kv_heads, max_length):
    reader = anatomy(make_toy(name))
    assert (reader.layers, reader.width, reader.heads, reader.head_width) == (3, 48, 4, 12)
    assert (reader.n_kv_heads, reader.max_length) == (kv_heads, max_length)


@torch.no_grad()
def test_no_position_limit_means_no_position_limit(make_toy):
    for name in ("pythia", "gemma", "mamba"):
        assert make_toy(name)(tokens(1, 100)).logits.shape[1] == 100
    with pytest.raises(IndexError):
        make_toy("gpt2")(tokens(1, 100))


@torch.no_grad()
def test_generic_anatomy_finds_the_parts(generic_model):
    inputs = tokens(2, 9)
    reader = anatomy(generic_model)
    assert not reader.fast
    assert (reader.layers, reader.width, reader.heads, reader.head_width) == (3, 48, 4, 12)
    block_in, block_out = capture(reader.blocks, lambda: generic_model(inputs))
    states = hidden_states(generic_model, inputs)
    assert torch.equal(block_in[0], states[0])
    assert all(map(torch.equal, block_out[:-1], states[1:]))
    logits = generic_model(inputs).logits
    assert torch.equal(reader.unembedding(reader.final_norm(block_out[-1])), logits)
    assert torch.equal(reader.forward(inputs), logits)
    assert reader.embedding(inputs).shape == (2, 9, 48)
    z, projected = capture(reader.attention_projection, lambda: generic_model(inputs))
    _, attn_out = capture(reader.attention, lambda: generic_model(inputs))
    assert all(part.shape == (2, 9, 48) for part in z)
    assert all(map(torch.equal, projected, attn_out))


@torch.no_grad()
def test_generic_attention_weights(generic_model):
    inputs = tokens(2, 9)
    before = generic_model.config._attn_implementation
    weights = anatomy(generic_model).attention_weights(inputs)
    assert weights.shape == (3, 2, 4, 9, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 4, 9))
    assert (weights.triu(1) == 0).all()
    assert generic_model.config._attn_implementation == before


def test_attention_implementation_is_put_back_after_an_exception(make_toy):
    model = make_toy("qwen2")
    with pytest.raises(IndexError):
        anatomy(model).attention_weights(torch.full((1, 3), VOCAB))
    assert model.config._attn_implementation == "sdpa"


def test_a_model_without_attention_has_no_heads(recurrent_model):
    reader = anatomy(recurrent_model)
    assert len(reader.blocks) == 3
    assert reader.heads is reader.head_width is reader.attention is reader.max_length is None
    with pytest.raises(StatetraceError, match="do not return their attention"):
        reader.attention_weights(tokens(1, 4))


@torch.no_grad()
def test_recurrent_blocks_write_to_a_residual_stream(recurrent_model):
    """What probing, patching and geometry need of them."""
    inputs = tokens(2, 9)
    reader = anatomy(recurrent_model)
    assert (reader.layers, reader.width) == (3, 48)
    block_in, block_out = capture(reader.blocks, lambda: recurrent_model(inputs))
    assert torch.equal(block_in[0], reader.embedding(inputs))
    assert all(map(torch.equal, block_out[:-1], block_in[1:]))
    logits = recurrent_model(inputs).logits
    assert torch.equal(reader.unembedding(reader.final_norm(block_out[-1])), logits)
    assert torch.equal(reader.forward(inputs), logits)


@torch.no_grad()
def test_recurrent_blocks_look_back_and_not_ahead(recurrent_model):
    inputs = tokens(1, 9)
    logits = recurrent_model(inputs).logits[0]
    inputs[0, 4] = (inputs[0, 4] + 1) % VOCAB
    changed = (recurrent_model(inputs).logits[0] - logits).abs().amax(-1) > 1e-6  # [T]
    assert changed.tolist() == 4 * [False] + 5 * [True]


def test_generic_anatomy_is_for_hooks_only(make_toy):
    with pytest.raises(StatetraceError, match=r"'qwen2' models have no qkv\(\)"):
        anatomy(make_toy("qwen2")).qkv(0, torch.zeros(1, 2, 48), torch.arange(2))


def test_parts_that_cannot_be_found_say_what_to_write(make_toy):
    model = make_toy("qwen2")
    model.config.num_hidden_layers = 5
    with pytest.raises(StatetraceError, match=r"no list of 5 modules.*register a family"):
        anatomy(model)


def test_sliding_windows_use_the_generic_anatomy():
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    reader = anatomy(toy("qwen3", {**WIDE, "head_dim": 12, **window}))
    assert not reader.fast
    assert len(reader.blocks) == 3


def test_rotations_that_depend_on_the_length_use_the_generic_anatomy():
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    reader = anatomy(toy("llama", {**WIDE, "rope_parameters": rope}))
    assert not reader.fast
    assert len(reader.blocks) == 3
