"""One sentence per lens: what a person should look at first. Read from the run folder alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from statetrace.lenses.result import NAMES

HALF = 0.5
"""A patch has restored the answer when it brings back half of the logit difference."""


def headlines(folder: Path, names: Iterable[str] = NAMES) -> dict[str, str]:
    """Lens name -> sentence, for those of the lenses that left something to say in RUN/lenses."""
    found = {}
    for lens in names:
        file, write = folder / f"{lens}.json", _WRITERS[lens]
        if file.is_file():
            sentence = write(folder, json.loads(file.read_text())["summary"])
            if sentence:
                found[lens] = sentence
    return found


def _generalization(folder: Path, summary: dict[str, Any]) -> str:
    parts = [
        f"{what} {summary['accuracy'][what]:.1%} right up to length {summary['training_length']}, "
        + _below(cutoff["first_below"], summary)
        for what, cutoff in summary["cutoff"].items()
    ]
    return "; ".join(parts)


def _below(length: int | None, summary: dict[str, Any]) -> str:
    if length is None:
        return f"above {summary['threshold']:.0%} to length {summary['longest']}"
    return f"below {summary['threshold']:.0%} from length {length} on"


def _probing(folder: Path, summary: dict[str, Any]) -> str:
    """The curves over layers, which are the signature."""
    curves = summary["curves"]["none"]
    shown = [
        f"{what} " + " ".join(f"{share:.0%}" for share in curve["accuracy"]["last"])
        for what, curve in curves.items()
    ]
    return "read from the last token, layer by layer: " + "; ".join(shown)


def _patching(folder: Path, summary: dict[str, Any]) -> str:
    """How long a prefix must be to bring the answer back, per layer and split."""
    rows = [
        row
        for row in pq.read_table(folder / "patching.parquet").to_pylist()
        if (row["where"], row["what"], row["kind"], row["metric"])
        == ("prefix", "substitution", "resid", "nld")
    ]
    parts = []
    for split in dict.fromkeys(row["split"] for row in rows):
        here = [row for row in rows if row["split"] == split and row["n"] > 0]
        needed = []
        for layer in sorted({row["layer"] for row in here}):
            enough = [r["position"] for r in here if r["layer"] == layer and r["mean"] >= HALF]
            needed.append(str(min(enough) + 1) if enough else "-")
        if needed:
            parts.append(f"{split} {' '.join(needed)}")
    return "actions to restore, layer by layer: " + "; ".join(parts) if parts else ""


def _depth(folder: Path, summary: dict[str, Any]) -> str:
    """Layers needed by length, the law that tells the algorithms apart."""
    needed = summary["layers_needed"]
    splits = [split for split in needed if split != "all"] or list(needed)
    shown = [
        f"{split} "
        + " ".join("-" if layers is None else f"{layers:.1f}" for layers in needed[split])
        for split in splits
    ]
    lengths = " ".join(map(str, summary["lengths"]))
    return f"layers an answer of length {lengths} needs: " + "; ".join(shown)


def _attention(folder: Path, summary: dict[str, Any]) -> str:
    heads = summary.get("top_heads")
    if not heads:
        return ""
    best, quotient = heads[0], summary["quotient"]
    said = f"best {quotient} head, layer {best['layer']} head {best['head']}: {best['score']:.0f}%"
    most = round(summary.get("score_ceiling", 100))
    said += f" of at most {most}%" if most > 100 else ""
    chance = summary.get("top_score_by_chance")
    if chance is not None:
        said += f" (for other sets of actions {chance:.0f}%)"
    drops = {(a["heads"], a["method"]): a["drop"] for a in summary.get("ablation", [])}
    cost = drops.get(("top 1", "mean"), {}).get(quotient)
    if cost is not None:
        said += f"; with its output set to its mean {quotient} loses {100 * cost:.0f} points"
        control = drops.get(("control 1", "mean"), {}).get(quotient)
        if control is not None:
            said += f", with another's {100 * control:.0f}"
    return said


def _geometry(folder: Path, summary: dict[str, Any]) -> str:
    parts = summary.get("irrep_share") or {}  # absent where not all states were visited
    shares = ", ".join(f"{name} {share:.0%}" for name, share in parts.items())
    said = f"variance of the states by irreducible representation: {shares}" if shares else ""
    prism = summary.get("prism")
    if prism and prism.get("score") is not None:
        said = (
            f"prism score {prism['score']:.2f} at layer {prism['layer']} "
            f"(for permuted states {prism['null']:.2f}); " + said
        )
    return said


def _dynamics(folder: Path, summary: dict[str, Any]) -> str:
    leads = [
        f"{what} ran ahead of the state by {lead['share']:.0%} of what is possible"
        for what, lead in summary.get("lead", {}).items()
    ]
    phases = summary.get("phases", [])
    if len(phases) > 1:
        leads.append("pace changed at step " + ", ".join(f"{step:,}" for step in phases[1:]))
    return "; ".join(leads)


_WRITERS: dict[str, Callable[[Path, dict[str, Any]], str]] = {
    "generalization": _generalization,
    "probing": _probing,
    "patching": _patching,
    "depth": _depth,
    "attention": _attention,
    "geometry": _geometry,
    "dynamics": _dynamics,
}
