"""Capture and overwrite activations with hooks, for every causal language model.

Purpose: `capture` reads activations, `overwrite` edits them. Both register hooks on modules of the
model for the duration of a `with` block and always remove them, also after an exception.
Cost: one full forward pass; nothing is reused (see grid.py for that).
Caveat: the model runs in its current mode, dropout included: see `evaluating`. Edits of one module
apply in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from statetrace.interventions.sites import Site, check_sites
from statetrace.models import Anatomy, anatomy
from statetrace.models.predict import evaluating

Edit = Callable[[Tensor], Tensor]
"""An activation, [B, T, D] or [B, T, head_width] for a head -> the activation to use instead."""


@contextmanager
def overwrite(model: nn.Module, edits: Mapping[Site, Edit]) -> Iterator[None]:
    """Use edited activations in every forward pass inside the block."""
    reader = anatomy(model)
    check_sites(tuple(edits), reader)
    with ExitStack() as hooks:
        for site, edit in edits.items():
            handle = _hook(reader, site, edit)
            hooks.callback(handle.remove)
        yield


@contextmanager
def capturing(model: nn.Module, sites: Iterable[Site]) -> Iterator[dict[Site, Tensor]]:
    """Yield a dictionary with the activations of the latest forward pass inside the block."""
    activations: dict[Site, Tensor] = {}

    def keep(site: Site) -> Edit:
        def edit(activation: Tensor) -> Tensor:
            # A copy, because some families add to the residual stream in place.
            activations[site] = activation.detach().clone()
            return activation

        return edit

    with overwrite(model, {site: keep(site) for site in sites}):
        yield activations


def capture(model: nn.Module, tokens: Tensor, sites: Iterable[Site]) -> dict[Site, Tensor]:
    """tokens [B, T] -> the activation at each site in one forward pass in eval mode."""
    sites = tuple(sites)
    with evaluating(model), capturing(model, sites) as activations:
        model(tokens, use_cache=False)
    return {site: activations[site] for site in sites}


def _hook(reader: Anatomy, site: Site, edit: Edit) -> torch.utils.hooks.RemovableHandle:
    if site.kind == "resid" and site.layer == 0:
        return _edit_input(reader.blocks[0], edit)
    if site.kind == "head":
        assert reader.attention_projection is not None
        assert reader.head_width is not None
        assert site.head is not None
        first = site.head * reader.head_width
        only_head = _on_slice(edit, slice(first, first + reader.head_width))
        return _edit_input(reader.attention_projection[site.layer - 1], only_head)
    modules = {"resid": reader.blocks, "attn_out": reader.attention, "mlp_out": reader.mlp}
    module = modules[site.kind]
    assert module is not None  # see check_sites
    return _edit_output(module[site.layer - 1], edit)


def _on_slice(edit: Edit, part: slice) -> Edit:
    """The edit of one head's share of the concatenated heads."""

    def edited(z: Tensor) -> Tensor:
        before = z[..., part]
        after = edit(before)
        if after is before:  # read only
            return z
        z = z.clone()
        z[..., part] = after
        return z

    return edited


def _edit_output(module: nn.Module, edit: Edit) -> torch.utils.hooks.RemovableHandle:
    """The output is the activation, or a tuple that begins with it."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (edit(output[0]), *output[1:])
        return edit(output)

    return module.register_forward_hook(hook)


def _edit_input(module: nn.Module, edit: Edit) -> torch.utils.hooks.RemovableHandle:
    """The activation is the first positional argument, or the one called hidden_states."""

    def hook(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        if args:
            return (edit(args[0]), *args[1:]), kwargs
        return args, kwargs | {"hidden_states": edit(kwargs["hidden_states"])}

    return module.register_forward_pre_hook(hook, with_kwargs=True)
