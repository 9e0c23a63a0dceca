"""Sites: the activations of a model that can be captured or overwritten.

A `Site` names an activation as the paper and TransformerLens do, for every family. capture.py finds
the module that holds it, cached.py computes it. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.models import Anatomy

KINDS = ("resid", "attn_out", "mlp_out", "head")


@dataclass(frozen=True, order=True)
class Site:
    """One activation of a model, at all positions.

    Attributes:
        kind: "resid", the residual stream [B, T, D]; "attn_out" and "mlp_out", the outputs of
            attention and MLP of a block [B, T, D]; "head", the z of one head [B, T, head_width].
        layer: for "resid" 0 is the embedding and l the output of block l = 1..L; the other kinds
            are inside block l = 1..L.
        head: 0..H-1 for "head", else None.
    """

    kind: str
    layer: int
    head: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise StatetraceError(f"unknown site kind {self.kind!r}; use one of {', '.join(KINDS)}")
        lowest = 0 if self.kind == "resid" else 1
        if self.layer < lowest:
            raise StatetraceError(
                f"{self.kind} has no layer {self.layer}; its layers start at {lowest}"
            )
        if (self.head is None) == (self.kind == "head"):
            needs = "needs a head from 0 up" if self.kind == "head" else "takes no head"
            raise StatetraceError(f"a site of kind {self.kind!r} {needs}, not {self.head!r}")

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}" + ("" if self.head is None else f".{self.head}")


def sites_of(kind: str, anatomy: Anatomy) -> tuple[Site, ...]:
    """All sites of one kind in a model, by layer and head."""
    layers = range(0 if kind == "resid" else 1, anatomy.layers + 1)
    # without attention, one site for check_sites to refuse
    heads = range(anatomy.heads or 1) if kind == "head" else (None,)
    sites = tuple(Site(kind, layer, head) for layer in layers for head in heads)
    check_sites(sites, anatomy)
    return sites


def check_sites(sites: Sequence[Site], anatomy: Anatomy) -> None:
    """Refuse sites that the model does not have."""
    holders = {
        "resid": anatomy.blocks,
        "attn_out": anatomy.attention,
        "mlp_out": anatomy.mlp,
        "head": anatomy.attention_projection,
    }
    for site in sites:
        if holders[site.kind] is None:
            kinds = [kind for kind, modules in holders.items() if modules is not None]
            raise StatetraceError(
                f"no {site.kind!r} was found in this {anatomy.model.config.model_type!r} model; "
                f"use {' or '.join(kinds)}, or register a model family"
            )
        if site.layer > anatomy.layers:
            raise StatetraceError(
                f"the model has no site '{site}'; its layers end at {anatomy.layers}"
            )
        if site.head is not None and not 0 <= site.head < (anatomy.heads or 0):
            raise StatetraceError(
                f"the model has no site '{site}'; its heads are 0 to {(anatomy.heads or 0) - 1}"
            )
