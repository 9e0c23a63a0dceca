"""Fit the verdict's weights to measured models, and write down how good they are.

The weights are few (a count for each of three lenses, and two costs) and are fitted by maximum
likelihood with a penalty that keeps them near 3, as compiled models alone would make them infinite:
they can be told apart without fail. Dynamics cannot be fitted, as compiled models have no training,
and gets the cost of generalization, which sees the same thing from the other end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from statetrace.mechanisms.verdict import MEASURED, MIXED, LensWeights, probable, score

FLOOR = {"patching": 0.02, "depth": 0.1, "probing": 0.02}
"""Distances below which a measurement is no longer exact: the largest that compiled models without
noise have to their own algorithm's prediction, about."""

NEAR = 3.0
"""Where the penalty wants the weights; by a factor of `SPREAD` they may differ at little cost."""
SPREAD = 2.0

BINS = 10

Row = dict[str, Any]


def fit(rows: Sequence[Row]) -> LensWeights:
    """The weights for which the labels are most likely, given the penalty."""
    learned = [row for row in rows if row["measures"] is not None and row["label"] != "unlearned"]
    names = [*MEASURED, "generalization", "attention"]
    logs = torch.zeros(len(names), dtype=torch.float64, requires_grad=True)
    terms = [_terms(row, names) for row in learned]
    optimizer = torch.optim.LBFGS([logs], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        weights = NEAR * logs.exp()
        total = (logs**2).sum() / (2 * np.log(SPREAD) ** 2)
        for matrix, right in terms:
            total = total - (matrix @ weights).log_softmax(0)[right]
        total.backward()
        return total

    optimizer.step(loss)
    found = dict(zip(names, (NEAR * logs.exp()).tolist(), strict=True))
    against = {lens: found[lens] for lens in ("generalization", "attention")}
    return LensWeights(
        count={lens: found[lens] for lens in MEASURED},
        floor=FLOOR,
        against=against | {"dynamics": found["generalization"]},
        lapse=_lapse(len(learned)),
    )


def _terms(row: Row, names: Sequence[str]) -> tuple[torch.Tensor, int]:
    """[algorithms, weights]: what each weight multiplies; and the index of the right algorithm."""
    unit = LensWeights(
        dict.fromkeys(MEASURED, 1.0),
        FLOOR,
        dict.fromkeys(("generalization", "attention", "dynamics"), 1.0),
        0.0,
    )
    scores = score(row["measures"], unit)
    algorithms = row["measures"]["algorithms"]
    matrix = [[scores.get(lens, {}).get(name, 0.0) for lens in names] for name in algorithms]
    return torch.tensor(matrix, dtype=torch.float64), algorithms.index(row["label"])


def _lapse(models: int) -> float:
    """Three in the number of models: with no mistake among n, more than 3/n of mistakes can be
    ruled out with 95% confidence, and no more than that."""
    return round(3.0 / max(models, 3), 4)


def judge(row: Row, weights: LensWeights) -> tuple[str, float]:
    """Mechanism and confidence of one measured model."""
    if row["measures"] is None:
        return "unlearned", 1.0
    shares = probable(score(row["measures"], weights), weights.lapse)
    best = max(shares, key=lambda name: shares[name])
    return (best, shares[best]) if shares[best] >= MIXED else ("mixed", 1.0 - shares[best])


def quality(rows: Sequence[Row], weights: LensWeights) -> dict[str, Any]:
    """Share right, expected calibration error, confident mistakes, and how often the quick reading
    agrees with the full one where it says anything."""
    said = [judge(row, weights) for row in rows]
    right = np.array([name == row["label"] for (name, _), row in zip(said, rows, strict=True)])
    sure = np.array([confidence for _, confidence in said])
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [
        abs(right[bins == b].mean() - sure[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    quick = [(row["fast"], name) for row, (name, _) in zip(rows, said, strict=True)]
    told = [(fast, name) for fast, name in quick if fast != "mixed"]
    return {
        "models": len(rows),
        "right": float(right.mean()),
        "calibration_error": float(np.sum(gaps)),
        "confident_mistakes": int(((sure > 0.9) & ~right).sum()),
        "mean_confidence": float(sure.mean()),
        "fast_told": len(told),
        "fast_agrees": float(np.mean([a == b for a, b in told])) if told else None,
    }


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Every other model, so that both halves have all kinds."""
    return [row for row in rows if row["number"] % 2 == 0], [r for r in rows if r["number"] % 2]


def report(rows: list[Row], trained: Path | None, folder: Path) -> None:
    """Fit on one half, try on the other and on trained models, and write it all down."""
    known, held_out = halves(rows)
    weights = fit(known)
    unseen = [json.loads(line) for line in trained.read_text().splitlines()] if trained else []
    measured = {
        "fitted on": quality(known, weights),
        "held out": quality(held_out, weights),
    }
    if unseen:
        measured["trained, never fitted to"] = quality(unseen, weights)
        measured["held out and trained together"] = quality([*held_out, *unseen], weights)
    about = {
        "count": {k: round(v, 3) for k, v in weights.count.items()},
        "floor": dict(weights.floor),
        "against": {k: round(v, 3) for k, v in weights.against.items()},
        "lapse": weights.lapse,
        "measured": measured,
    }
    (folder / "weights.json").write_text(json.dumps(about, indent=2) + "\n")
    (folder / "calibration.md").write_text(_page(held_out, unseen, weights, about))


def _page(
    held_out: list[Row], unseen: list[Row], weights: LensWeights, about: dict[str, Any]
) -> str:
    lines = [
        _HEAD,
        "| models | n | right | mean confidence | calibration error | confident mistakes |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for name, found in about["measured"].items():
        lines.append(
            f"| {name} | {found['models']} | {found['right']:.1%} | {found['mean_confidence']:.3f} "
            f"| {found['calibration_error']:.3f} | {found['confident_mistakes']} |"
        )
    lines += ["", "`--fast`, generalization alone, against the full verdict:", ""]
    lines += ["| models | n | told anything | agreed where it did |", "|---|---|---|---|"]
    for name, found in about["measured"].items():
        agreed = "-" if found["fast_agrees"] is None else f"{found['fast_agrees']:.0%}"
        lines.append(f"| {name} | {found['models']} | {found['fast_told']} | {agreed} |")
    lines += ["", "## Held out, by label and length", ""]
    lines += ["| label | length | n | right | noise up to |", "|---|---|---|---|---|"]
    for label, length in sorted({(row["label"], row["spec"]["length"]) for row in held_out}):
        here = [r for r in held_out if (r["label"], r["spec"]["length"]) == (label, length)]
        right = np.mean([judge(row, weights)[0] == label for row in here])
        noise = max(row["spec"]["noise"] for row in here)
        lines.append(f"| {label} | {length} | {len(here)} | {right:.0%} | {noise:.4f} |")
    wrong = [(row, *judge(row, weights)) for row in held_out]
    wrong = [found for found in wrong if found[1] != found[0]["label"]]
    if wrong:
        lines += ["", "Mistakes:", "", "| group | label | length | verdict | confidence |"]
        lines.append("|---|---|---|---|---|")
    for row, name, sure in wrong:
        of = row["spec"]
        lines.append(f"| {of['group']} | {row['label']} | {of['length']} | {name} | {sure:.2f} |")
    if unseen:
        lines += ["", "## Trained models", "", _TRAINED, ""]
        lines += ["| model | label | verdict | confidence | quick |", "|---|---|---|---|---|"]
    for row in unseen:
        name, sure = judge(row, weights)
        lines.append(f"| {row['name']} | {row['label']} | {name} | {sure:.2f} | {row['fast']} |")
    return "\n".join(lines) + "\n"


_HEAD = """# Calibration of the verdict

Made by `make calibration` from `results/calibration/measures.jsonl`, which it also makes where it
is missing: compiled models of four algorithms and several groups with every option varied
(length, notation, start marker, positions to spare, parity shown or hidden, counters, heads,
spare layers, basis, noise up to where accuracy falls below 98%, sharpness, seed), and models that
know nothing or parity alone. LensWeights are fitted to every other model and tried on the rest.
"""

_TRAINED = """No weight was fitted to these. Their labels are ours, read as the paper reads its
models: state and parity together in patching, probing and training (associative) or
parity first (parity-associative); of models trained with an auxiliary parity loss
or on parity first we know it from the training. Models called other-code were
trained by a plain loop that shares nothing with statetrace, with other token ids,
in the other notation, with and without a start marker. `other-code-g16` settles
every length in its last layer at once, as counting would: the parallel algorithm
has as good a claim to it. The run.json of all others is in `results/calibration/runs`."""
