"""Read and overwrite activations with hooks: the plain road, for every causal language model.

Purpose: `capture` reads, `overwrite` edits; both put hooks on the model's own modules for as long
as a `with` block lasts and take them off however it ends, so that an exception leaves nothing
behind.
Cost: one full forward pass; nothing is reused (grid.py does that).
Caveat: the model is run as it is, dropout included: see `evaluating`. Edits of one module apply in
the order they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from statetrace.interventions.sites import Site, check_sites
from statetrace.models import Anatomy, anatomy

Edit = Callable[[Tensor], Tensor]
"""An activation, [B, T, D] or [B, T, head_width] for a head, -> what the model uses instead."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No gradients and no dropout inside; every module's own mode is put back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def overwrite(model: nn.Module, edits: Mapping[Site, Edit]) -> Iterator[None]:
    """Every forward pass inside the block uses the edited activations."""
    reader = anatomy(model)
    check_sites(tuple(edits), reader)
    with ExitStack() as hooks:
        for site, edit in edits.items():
            handle = _hook(reader, site, edit)
            hooks.callback(handle.remove)
        yield


@contextmanager
def capturing(model: nn.Module, sites: Iterable[Site]) -> Iterator[dict[Site, Tensor]]:
    """The dictionary it yields holds the activations of the latest forward pass in the block."""
    found: dict[Site, Tensor] = {}

    def keep(site: Site) -> Edit:
        def edit(activation: Tensor) -> Tensor:
            # A copy: some families go on to add to the residual stream in place.
            found[site] = activation.detach().clone()
            return activation

        return edit

    with overwrite(model, {site: keep(site) for site in sites}):
        yield found


def capture(model: nn.Module, tokens: Tensor, sites: Iterable[Site]) -> dict[Site, Tensor]:
    """tokens [B, T] -> the activation at each site, of one forward pass in eval mode."""
    sites = tuple(sites)
    with evaluating(model), capturing(model, sites) as found:
        model(tokens, use_cache=False)
    return {site: found[site] for site in sites}


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
    found = modules[site.kind]
    assert found is not None  # check_sites has been here
    return _edit_output(found[site.layer - 1], edit)


def _on_slice(edit: Edit, part: slice) -> Edit:
    """The edit of one head's share of the concatenated heads."""

    def edited(z: Tensor) -> Tensor:
        before = z[..., part]
        after = edit(before)
        if after is before:  # only looked at
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
