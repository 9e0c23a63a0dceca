"""The residual stream against what Hugging Face calls hidden states."""

from typing import Any

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.activations import bytes_needed, residuals
from statetrace.models import anatomy
from tests.models.conftest import FAST, GENERIC, tokens, toy

MODELS = {
    name: (FAST | GENERIC)[name] for name in ("gpt2", "pythia", "llama-grouped", "opt", "gptj")
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_hidden_states(name: str) -> None:
    model = toy(*MODELS[name])
    given = tokens(5, 9)
    stream = residuals(model, given, [0, 4, 8])
    reader = anatomy(model)
    assert stream.shape == (reader.layers + 1, 5, 3, reader.width)
    with torch.no_grad():
        hidden = model(given, output_hidden_states=True, use_cache=False).hidden_states
    for layer in range(reader.layers):
        torch.testing.assert_close(stream[layer], hidden[layer][:, [0, 4, 8]])
    # the last of Hugging Face's hidden states has the final norm behind it already
    assert reader.final_norm is not None
    with torch.no_grad():
        normed = reader.final_norm(stream[-1])
    torch.testing.assert_close(normed, hidden[-1][:, [0, 4, 8]])


def test_a_position_of_each_sequence_and_any_batch() -> None:
    model, given = toy(*MODELS["gpt2"]), tokens(7, 9)
    everywhere = residuals(model, given, range(9))  # [L + 1, 7, 9, D]
    own = torch.tensor([[3, 0], [8, 8], [1, 2], [0, 5], [4, 4], [7, 6], [2, 1]])
    for batch in (None, 1, 3, 100):
        stream = residuals(model, given, own, batch=batch)
        for row, (first, second) in enumerate(own.tolist()):
            torch.testing.assert_close(stream[:, row, 0], everywhere[:, row, first])
            torch.testing.assert_close(stream[:, row, 1], everywhere[:, row, second])


def test_positions_of_long_sequences_are_the_ends_of_short_ones() -> None:
    model, given = toy(*MODELS["pythia"]), tokens(6, 12)
    stream = residuals(model, given, [2, 5, 11])
    for i, last in enumerate((2, 5, 11)):
        alone = residuals(model, given[:, : last + 1], [last])
        torch.testing.assert_close(stream[:, :, i], alone[:, :, 0])


def test_runs_no_more_tokens_than_needed_and_tells_how_far_it_is() -> None:
    model, given = toy(*MODELS["gpt2"]), tokens(6, 12)
    lengths, shares = [], []
    model.transformer.h[0].register_forward_pre_hook(lambda m, args: lengths.append(args[0].shape))
    residuals(model, given, [4], batch=4, done=shares.append)
    assert [tuple(shape[:2]) for shape in lengths] == [(4, 5), (2, 5)]
    assert shares == [4 / 6, 1.0]


def test_each_position_is_contiguous_and_counted() -> None:
    model = toy(*MODELS["gpt2"])
    stream = residuals(model, tokens(6, 9), [1, 5, 8])
    assert all(stream[:, :, i].is_contiguous() for i in range(3))
    assert bytes_needed(model, 6, 3) == stream.numel() * stream.element_size()


def test_a_model_in_training_is_read_without_dropout() -> None:
    model, given = toy(*MODELS["gpt2"]), tokens(4, 9)  # dropout 0.3
    expected = residuals(model, given, [8])
    assert torch.equal(residuals(model.train(), given, [8]), expected)


def test_keeps_the_models_precision() -> None:
    model = toy(*MODELS["gpt2"]).double()
    assert residuals(model, tokens(2, 5), [4]).dtype == torch.float64


def test_nothing_is_left_behind_after_an_exception() -> None:
    model = toy(*MODELS["gpt2"]).train()
    model.transformer.h[0].eval()

    def fail(module: Any, args: Any) -> None:
        raise RuntimeError("in the middle")

    handle = model.transformer.h[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        residuals(model, tokens(2, 5), [4])
    handle.remove()
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in model.modules()]
    assert not any(hooks)
    assert model.training
    assert not model.transformer.h[0].training


@pytest.mark.parametrize(
    ("given", "positions", "message"),
    [
        (tokens(2, 5), [5], "no position 5 in 5 tokens; use 0 to 4"),
        (tokens(2, 5), [-1], "no position -1"),
        (tokens(2, 5), torch.zeros(3, 1), r"shape \(3, 1\) do not match 2 sequences"),
        (tokens(2, 5), [], r"shape \(2, 0\)"),
        (tokens(2, 65), [64], "65 tokens exceed the 64 positions"),
        (tokens(2, 5) + 7, [0], "is not among the 7 tokens"),
    ],
)
def test_bad_input_is_quoted(given: torch.Tensor, positions: Any, message: str) -> None:
    with pytest.raises(StatetraceError, match=message):
        residuals(toy(*MODELS["gpt2"]), given, positions)
