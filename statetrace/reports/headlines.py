"""One sentence per lens result: its main numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.lenses.registry import registered_lens
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.mastery import cutoff_sentence
from statetrace.mechanisms.sentences import ablation
from statetrace.reports.figures.probing import READ

HALF = 0.5
"""A patch restores the answer if it brings back half of the logit difference."""


def headline(result: LensResult) -> str:
    """The main numbers of a result; "" if it has none. A registered lens has its own headline, or
    one that lists its summary."""
    write = _WRITERS.get(result.lens)
    if write is not None:
        return write(result)
    lens = registered_lens(result.lens)
    if lens is not None and lens.headline is not None:
        try:
            return str(lens.headline(result))
        except StatetraceError as error:
            plugins.warn(str(error))
    return "; ".join(filter(None, (_listed(*item) for item in result.summary.items())))


def _listed(name: str, value: object) -> str:
    """ "drift 0.12", or "by layer 0.1 0.2 0.3"; nothing for what is too long for a sentence."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    if len(values) > 12 or not all(isinstance(each, int | float | str) for each in values):
        return ""
    shown = [f"{each:.3g}" if isinstance(each, float) else str(each) for each in values]
    return f"{name.replace('_', ' ')} {' '.join(shown)}"


def _generalization(result: LensResult) -> str:
    shares = result.summary["accuracy"]
    accuracy = ", ".join(f"{what} {share:.1%}" for what, share in shares.items())
    lengths = f"lengths 1 to {result.summary['training_length']}"
    return f"mean accuracy over {lengths}: {accuracy}; {cutoff_sentence(result)}"


def _probing(result: LensResult) -> str:
    curves = result.summary["curves"]["none"]
    measured = next(iter(curves.values()))["accuracy"]
    of, position = next((of, position) for of, position in READ.items() if position in measured)
    shown = [f"{name} {_percent(curve['accuracy'][position])}" for name, curve in curves.items()]
    return f"probe accuracy on sequences of {of}, from layer 0 on: " + "; ".join(shown)


def _percent(shares: Iterable[float]) -> str:
    return " ".join(f"{share:.0%}" for share in shares)


def _patching(result: LensResult) -> str:
    """How many actions a prefix needs to restore the answer, by layer and split."""
    parts = []
    for split in dict.fromkeys(result.columns["split"]):
        grid = {"where": "prefix", "what": "substitution", "kind": "resid", "metric": "nld"}
        nld = result.grid(**grid, split=split)
        restored = nld >= HALF
        if np.isfinite(nld).any():
            needed = [str(1 + int(row.argmax())) if row.any() else "-" for row in restored]
            name = "all pairs" if split == "all" else split
            parts.append(f"{name} {' '.join(needed)}")
    title = "actions needed to restore the answer, from layer 0 on: "
    return title + "; ".join(parts) if parts else ""


def _depth(result: LensResult) -> str:
    needed = result.summary["layers_needed"]
    shown = []
    for split in [split for split in needed if split != "all"] or list(needed):
        layers = " ".join("-" if n is None else f"{n:.1f}" for n in needed[split])
        shown.append(f"{split} {layers}")
    lengths = " ".join(map(str, result.summary["lengths"]))
    return f"layers needed at length {lengths}: " + "; ".join(shown)


def _attention(result: LensResult) -> str:
    summary = result.summary
    heads = summary.get("top_heads")
    if not heads:
        return ""
    best, quotient = heads[0], summary["quotient"]
    text = f"best {quotient} head: layer {best['layer']}, head {best['head']}, "
    text += f"score {best['score'] / 100:.2f}"
    chance = summary.get("top_score_by_chance")
    text += f" (chance {chance / 100:.2f})" if chance is not None else ""
    drops = {(a["heads"], a["method"]): a["drop"] for a in summary.get("ablation", [])}
    drop = drops.get(("top 1", "mean"), {}).get(quotient)
    if drop is not None:
        control = drops.get(("control 1", "mean"), {}).get(quotient)
        text += f"; {ablation(quotient, drop, control)}"
    return text


def _geometry(result: LensResult) -> str:
    parts = []
    prism = result.summary.get("prism")
    if prism and prism.get("score") is not None:
        score = f"prism score {prism['score']:.2f} at layer {prism['layer']}"
        parts.append(f"{score} (permuted states: {prism['null']:.2f})")
    shares: Mapping[str, float] = result.summary.get("irrep_share") or {}  # none: states unvisited
    if shares:
        listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        parts.append(f"variance between states by irreducible representation: {listed}")
    return "; ".join(parts)


def _dynamics(result: LensResult) -> str:
    parts = [
        f"lead of {what} over the state: {lead['share']:.2f} (0: learned together, 1: {what} first)"
        for what, lead in result.summary.get("lead", {}).items()
    ]
    phases = result.summary.get("phases", [])
    if len(phases) > 1:
        parts.append("phases begin at step " + ", ".join(f"{step:,}" for step in phases))
    return "; ".join(parts)


def _subspace(result: LensResult) -> str:
    parts = []
    for quotient, about in result.summary.items():
        if not isinstance(about, Mapping):
            continue
        accuracy = about["interchange_accuracy"]
        methods = [method for method in accuracy if method in ("means", "das")]
        shown = [f"{method} {_percent(accuracy[method])}" for method in methods]
        if "random" in accuracy:
            shown.append(f"random subspaces at most {max(accuracy['random']):.0%}")
        layers = " ".join(map(str, about["layers"]))
        parts.append(f"interchange accuracy of {quotient} at layers {layers}: " + "; ".join(shown))
    return "; ".join(parts)


_WRITERS: dict[str, Callable[[LensResult], str]] = {
    "generalization": _generalization,
    "probing": _probing,
    "patching": _patching,
    "depth": _depth,
    "attention": _attention,
    "geometry": _geometry,
    "dynamics": _dynamics,
    "subspace": _subspace,
}
