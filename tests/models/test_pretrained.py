"""Pretrained checkpoints that the test makes: a new vocabulary and nothing else changed."""

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.models import ModelSpec, build, load_checkpoint, load_pretrained, parameter_count
from statetrace.models.pretrained import _draw
from tests.models.conftest import FAST, GENERIC, tokens, toy

OLD_VOCAB = 90
# The checkpoint and whether its unembedding is its embedding. opt has a padding token among the
# task's ids, gptj a bias on its unembedding.
CHECKPOINTS = {
    "gpt2": (FAST["gpt2"], True),
    "pythia": (FAST["pythia"], False),
    "llama": (FAST["llama-grouped"], False),
    "llama-3": (FAST["llama-3"], True),
    "opt": (("opt", {**GENERIC["opt"][1], "pad_token_id": 1}), True),
    "gptj": (GENERIC["gptj"], False),
}


def make(name):
    model_type, fields = CHECKPOINTS[name][0]
    special = {"bos_token_id": 80, "eos_token_id": 81}
    return toy(model_type, {**fields, "vocab_size": OLD_VOCAB, **special})


@pytest.fixture(params=CHECKPOINTS)
def checkpoint(request, tmp_path):
    """(folder, the model in it, whether it is tied)"""
    model = make(request.param)
    model.save_pretrained(tmp_path)
    return str(tmp_path), model, CHECKPOINTS[request.param][1]


@pytest.fixture
def gpt2_folder(tmp_path):
    make("gpt2").save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("vocab_size", [7, 90, 300])
def test_only_the_vocabulary_changes(checkpoint, vocab_size):
    folder, old, tied = checkpoint
    new = load_pretrained(folder, vocab_size, seed=3)
    old_in, old_out = old.get_input_embeddings().weight, old.get_output_embeddings().weight
    new_in, new_out = new.get_input_embeddings().weight, new.get_output_embeddings().weight
    assert (new_out is new_in) == (old_out is old_in) == tied
    assert len(new_in) == len(new_out) == new.config.vocab_size == vocab_size

    replaced = {id(old_in), id(old_out), id(old.get_output_embeddings().bias)}
    unchanged = {name: p for name, p in old.named_parameters() if id(p) not in replaced}
    parameters = dict(new.named_parameters())
    assert len(unchanged) >= len(parameters) - 3
    assert all(torch.equal(parameters[name], parameter) for name, parameter in unchanged.items())

    for new_rows, old_rows in ((new_in, old_in), (new_out, old_out)):
        # Close to the mean of the old rows, yet no two alike.
        torch.testing.assert_close(
            new_rows, old_rows.mean(0).expand_as(new_rows), atol=1e-4, rtol=0
        )
        assert len(new_rows.unique(dim=0)) == vocab_size
    if not tied:
        assert not torch.equal(new_in, new_out)
    bias = new.get_output_embeddings().bias
    if bias is not None:
        old_mean = old.get_output_embeddings().bias.mean()
        torch.testing.assert_close(bias, old_mean.expand_as(bias), atol=1e-4, rtol=0)

    assert not new.training
    assert new(tokens(2, 9)).logits.shape == (2, 9, vocab_size)


def test_checkpoint_with_the_new_vocabulary_survives_saving(checkpoint, tmp_path):
    new = load_pretrained(checkpoint[0], 7, seed=3)
    new.save_pretrained(tmp_path / "again")
    loaded = load_checkpoint(tmp_path / "again")
    assert all(map(torch.equal, loaded.state_dict().values(), new.state_dict().values()))
    for config in (new.config, loaded.config, new.generation_config, loaded.generation_config):
        assert config.bos_token_id is config.eos_token_id is config.pad_token_id is None
    # Every token can learn: a padding token's row would get no gradient.
    loaded(torch.arange(7)[None]).logits.logsumexp(-1).sum().backward()
    assert (loaded.get_input_embeddings().weight.grad.abs().sum(1) > 0).all()


def test_the_seed_decides_and_the_global_one_is_left_alone(gpt2_folder):
    torch.manual_seed(5)
    expected_next = torch.rand(3)
    torch.manual_seed(5)
    first = load_pretrained(gpt2_folder, 7, seed=1).get_input_embeddings().weight
    assert torch.equal(torch.rand(3), expected_next)
    assert torch.equal(first, load_pretrained(gpt2_folder, 7, seed=1).lm_head.weight)
    assert not torch.equal(first, load_pretrained(gpt2_folder, 7, seed=2).lm_head.weight)


def test_draws_have_the_mean_and_covariance_of_the_old_rows():
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(50, 4, generator=generator) @ torch.randn(4, 4, generator=generator) + 3
    drawn = _draw(old, 40_000, scale=0.25, generator=generator)
    torch.testing.assert_close(drawn.mean(0), old.mean(0), atol=0.03, rtol=0)
    covariance = 0.25 * torch.cov(old.T, correction=0)
    torch.testing.assert_close(torch.cov(drawn.T), covariance, atol=0.03, rtol=0.03)


def test_draws_exist_where_the_covariance_is_singular():
    old = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))  # rank 2 of 8
    drawn = _draw(old, 1000, scale=1.0, generator=torch.Generator().manual_seed(1))
    assert torch.linalg.matrix_rank(drawn - old.mean(0), rtol=1e-4) == 2


def test_a_wider_scale_spreads_the_tokens(gpt2_folder):
    narrow = load_pretrained(gpt2_folder, 7, seed=1).lm_head.weight.std(0)
    wide = load_pretrained(gpt2_folder, 7, seed=1, scale=1.0).lm_head.weight.std(0)
    torch.testing.assert_close(wide / narrow, torch.full_like(wide, 1e9**0.5), rtol=0.1, atol=0)


def test_half_precision_becomes_float32_with_the_same_values(tmp_path):
    old = make("pythia").half()
    old.save_pretrained(tmp_path)
    new = load_pretrained(str(tmp_path), 7, seed=0)
    assert {parameter.dtype for parameter in new.parameters()} == {torch.float32}
    blocks = zip(old.gpt_neox.layers.parameters(), new.gpt_neox.layers.parameters(), strict=True)
    assert all(torch.equal(before.float(), after) for before, after in blocks)


def test_build_loads_pretrained_weights(gpt2_folder):
    spec = ModelSpec("gpt2", pretrained=gpt2_folder, dropout=0.2)
    model = build(spec, vocab_size=7, max_length=64, seed=1)
    direct = load_pretrained(gpt2_folder, 7, seed=1, dropout=0.2)
    assert all(map(torch.equal, model.state_dict().values(), direct.state_dict().values()))
    assert model.config.resid_pdrop == model.transformer.h[0].attn.resid_dropout.p == 0.2
    count = parameter_count(spec, vocab_size=7, max_length=64)
    assert count.total == sum(parameter.numel() for parameter in model.parameters())


def test_too_few_positions_are_refused(gpt2_folder):
    spec = ModelSpec("gpt2", pretrained=gpt2_folder)
    for function in (parameter_count, lambda *args: build(*args, seed=0)):
        with pytest.raises(StatetraceError, match=r"65 tokens.*64 positions"):
            function(spec, 7, 65)


def test_dropout_of_an_unknown_family_is_refused(tmp_path):
    make("opt").save_pretrained(tmp_path)
    with pytest.raises(StatetraceError, match=r"dropout = 0\.2.*'opt'"):
        load_pretrained(str(tmp_path), 7, seed=0, dropout=0.2)
