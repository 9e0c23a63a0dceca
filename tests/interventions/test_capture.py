"""Hooks read and write what they should, and leave nothing behind."""

from typing import Any

import pytest
import torch
from torch import nn

from statetrace.errors import StatetraceError
from statetrace.interventions.capture import capture, overwrite
from statetrace.interventions.sites import Site, sites_of
from statetrace.models import anatomy
from statetrace.models.predict import evaluating
from tests.interventions.cases import Hooked, model_named, pairs
from tests.models.conftest import VOCAB

MODELS = ("gpt2", "pythia", "llama-grouped", "qwen", "gemma", "opt", "qwen2", "gptj")
SITES = (
    Site("resid", 0),
    Site("resid", 2),
    Site("resid", 3),
    Site("attn_out", 2),
    Site("mlp_out", 1),
    Site("head", 3, 1),
)
each_site = pytest.mark.parametrize("site", SITES, ids=str)


def hooks(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


@pytest.mark.parametrize("name", MODELS)
def test_capture_is_what_a_raw_hook_sees(name):
    model = model_named(name)
    nowhere = "mlp_out" if anatomy(model).mlp is None else ""  # nothing in OPT is called one
    sites = [site for site in SITES if site.kind != nowhere]
    tokens, _ = pairs()
    found = capture(model, tokens, sites)
    assert list(found) == sites
    for site in sites:
        seen: list[torch.Tensor] = []
        Hooked(model)(tokens, site, lambda x, seen=seen: seen.append(x.clone()))
        # Not bit for bit: kernels may differ with where in memory a tensor happens to lie.
        torch.testing.assert_close(found[site], seen[0], atol=1e-5, rtol=0)
        assert found[site].shape == (3, 7, 12 if site.kind == "head" else 48)
    assert hooks(model) == 0


@each_site
@torch.no_grad()
def test_overwriting_changes_the_output_and_itself_does_not(site):
    model = model_named("gpt2")
    tokens, _ = pairs()
    plain = model(tokens).logits
    with overwrite(model, {site: lambda x: x.clone()}):
        assert torch.equal(model(tokens).logits, plain)
    with overwrite(model, {site: torch.zeros_like}):
        assert not torch.allclose(model(tokens).logits, plain, atol=1e-3)
    assert torch.equal(model(tokens).logits, plain)


@torch.no_grad()
def test_all_heads_off_is_attention_off_but_for_its_bias():
    model = model_named("gpt2")
    tokens, _ = pairs()
    heads = [Site("head", 2, head) for head in range(4)]
    bias = anatomy(model).attention_projection[1].bias
    with overwrite(model, dict.fromkeys(heads, torch.zeros_like)):
        one_by_one = model(tokens).logits
    with overwrite(model, {Site("attn_out", 2): lambda x: bias.expand_as(x)}):
        torch.testing.assert_close(one_by_one, model(tokens).logits)


class Boom(Exception):
    pass


def fail(activation: torch.Tensor) -> torch.Tensor:
    raise Boom


@each_site
@torch.no_grad()
def test_nothing_is_left_behind_after_an_exception(site):
    model = model_named("pythia")
    tokens, _ = pairs()
    plain = model(tokens).logits

    def in_the_edit() -> None:
        with overwrite(model, {site: torch.zeros_like, Site("resid", 1): fail}):
            model(tokens)

    def in_the_block() -> None:
        with overwrite(model, {site: torch.zeros_like}):
            raise Boom

    def in_the_model() -> None:
        capture(model, torch.full((1, 2), VOCAB), [site])

    def while_hooking() -> None:
        with overwrite(model, {site: torch.zeros_like, Site("resid", 9): torch.zeros_like}):
            pass

    for run, error in (
        (in_the_edit, Boom),
        (in_the_block, Boom),
        (in_the_model, IndexError),
        (while_hooking, StatetraceError),
    ):
        with pytest.raises(error):
            run()
        assert hooks(model) == 0, run
        assert torch.equal(model(tokens).logits, plain), run


def test_hooks_are_counted_by_that_test():
    model = model_named("pythia")
    for site in SITES:
        with overwrite(model, {site: torch.zeros_like}):
            assert hooks(model) > 0, site


def test_modes_are_put_back_module_by_module():
    model = model_named("gpt2").train()
    frozen = model.transformer.h[1].eval()

    def inside() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            assert not torch.is_grad_enabled()
            raise Boom

    with pytest.raises(Boom):
        inside()
    assert torch.is_grad_enabled()
    assert {module for module in model.modules() if not module.training} == set(frozen.modules())


def test_capture_has_no_dropout_and_no_gradient():
    model = model_named("gpt2").train()  # dropout 0.3
    tokens, _ = pairs()
    site = Site("resid", 3)
    found = capture(model, tokens, [site])[site]
    assert not found.requires_grad
    assert torch.equal(found, capture(model, tokens, [site])[site])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            ("residual", 1),
            "unknown site kind 'residual'; use one of resid, attn_out, mlp_out, head",
        ),
        (("resid", -1), "resid has no layer -1; its layers start at 0"),
        (("mlp_out", 0), "mlp_out has no layer 0; its layers start at 1"),
        (("head", 1), "'head' needs a head"),
        (("attn_out", 1, 2), "'attn_out' takes no head, not 2"),
    ],
)
def test_impossible_sites(fields: Any, message: str):
    with pytest.raises(StatetraceError, match=message):
        Site(*fields)


@pytest.mark.parametrize(
    ("site", "message"),
    [
        (Site("resid", 4), "no site 'resid 4'; its layers end at 3"),
        (Site("head", 1, 4), "no site 'head 1.4'; its heads are 0 to 3"),
    ],
)
def test_sites_a_model_does_not_have(site: Site, message: str):
    tokens, _ = pairs()
    with pytest.raises(StatetraceError, match=message):
        capture(model_named("gpt2"), tokens, [site])


def test_sites_of_a_model_by_kind():
    reader = anatomy(model_named("gpt2"))
    assert [str(site) for site in sites_of("resid", reader)] == [f"resid {i}" for i in range(4)]
    assert [str(site) for site in sites_of("mlp_out", reader)] == [
        f"mlp_out {i}" for i in (1, 2, 3)
    ]
    heads = sites_of("head", reader)
    assert heads[:2] == (Site("head", 1, 0), Site("head", 1, 1))
    assert len(heads) == 12


def test_a_model_without_attention_says_so():
    reader = anatomy(model_named("mamba"))
    with pytest.raises(StatetraceError, match="no 'head' was found in this 'mamba' model; use res"):
        sites_of("head", reader)
