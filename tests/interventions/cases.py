"""The shared tables, and the reference: one plain forward pass with raw hooks per cell."""

from typing import Any

import torch
from torch import Tensor, nn

from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.models import anatomy
from tests.models.conftest import FAST, GENERIC, RECURRENT, VOCAB, toy

LENGTH = 7
PAIRS = 3
WHERE = {
    "prefix": {},
    "suffix": {},
    "context": {},
    "window": {},
    "window3": {"where": "window", "window": 3},
}
WHAT = ("substitution", "deletion")
HEADS = (Site("head", 1, 0), Site("head", 2, 3), Site("head", 3, 1))
ROWS: dict[str, Any] = {"resid": "resid", "attn_out": "attn_out", "mlp_out": "mlp_out"} | {
    "head": HEADS
}
SPECS = {
    f"{where}-{what}-{rows}": GridSpec(**({"where": where} | options), what=what, rows=ROWS[rows])
    for where, options in WHERE.items()
    for what in WHAT
    for rows in ROWS
}


def model_named(name: str, dtype: torch.dtype = torch.float32) -> Any:
    return toy(*(FAST | GENERIC | RECURRENT)[name]).to(dtype)


def pairs(
    corrupt_at: tuple[int, ...] = (0,), n: int = PAIRS, length: int = LENGTH
) -> tuple[Tensor, Tensor]:
    """Tokens [n, length] that differ exactly at the given positions."""
    clean = torch.randint(VOCAB, (n, length), generator=torch.Generator().manual_seed(1))
    corrupted = clean.clone()
    for position in corrupt_at:
        corrupted[:, position] = (clean[:, position] + 1 + torch.arange(n) % 3) % VOCAB
    return clean, corrupted


class Hooked:
    """Runs a model once with one activation read or replaced; knows nothing of the library but
    where the modules are."""

    def __init__(self, model: Any) -> None:
        self.model, self.parts = model, anatomy(model)

    @torch.no_grad()
    def __call__(self, tokens: Tensor, site: Site, change: Any) -> Tensor:
        """Last-position logits; change(activation) edits it in place."""
        block = max(site.layer - 1, 0)
        handle: Any
        if site.kind == "head" or site.layer == 0:
            head = site.kind == "head"
            module = self.parts.attention_projection[block] if head else self.parts.blocks[0]
            width = self.parts.head_width
            part = slice(site.head * width, (site.head + 1) * width) if head else slice(None)

            def before(module: nn.Module, args: Any, kwargs: Any) -> None:
                change(args[0][..., part])

            handle = module.register_forward_pre_hook(before, with_kwargs=True)
        else:
            kinds = {"resid": self.parts.blocks, "attn_out": self.parts.attention}
            module = (kinds | {"mlp_out": self.parts.mlp})[site.kind][block]

            def after(module: nn.Module, args: Any, output: Any) -> None:
                change(output[0] if isinstance(output, tuple) else output)

            handle = module.register_forward_hook(after)
        logits = self.model(tokens).logits[:, -1]
        handle.remove()
        return logits


def one_cell_at_a_time(
    model: Any, clean: Tensor, corrupted: Tensor, spec: GridSpec, offset: int = 0
) -> Tensor:
    """[rows, columns, pairs, V], written from the definitions and not from `windows`."""
    run = Hooked(model)
    length = clean.shape[1]
    columns = {"prefix": length - offset, "suffix": length - offset - 1, "context": 1}.get(
        spec.where, length - offset - spec.window + 1
    )
    rows = []
    for site in spec.sites(run.parts):
        donor: list[Tensor] = []
        run(clean, site, lambda x, keep=donor: keep.append(x.clone()))
        row = []
        for t in range(columns):
            positions = {
                "prefix": range(offset + t + 1),
                "suffix": range(offset + t, length - 1),
                "context": range(length - 1),
                "window": range(offset + t, offset + t + spec.window),
            }[spec.where]

            def change(x: Tensor, positions: range = positions, donor: Tensor = donor[0]) -> None:
                for p in positions:
                    x[:, p] = donor[:, p] if spec.what == "substitution" else 0

            row.append(run(corrupted if spec.what == "substitution" else clean, site, change))
        rows.append(torch.stack(row))
    return torch.stack(rows)
