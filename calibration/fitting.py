"""Fit the verdict's weights to measured models, and report their accuracy and calibration.

There are few weights (a count for each of three lenses, and two costs). They are fitted by maximum
likelihood with a penalty that keeps them near 3: compiled models are separable, so the likelihood
alone would make them infinite. The cost of dynamics cannot be fitted, because compiled models have
no training; it is set to that of generalization, which measures the same property.
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
"""Measurement error of a distance: about the largest that compiled models without noise have to
their own algorithm's prediction."""

NEAR, SPREAD = 3.0, 2.0
"""The penalty is that of a log-normal prior: median NEAR, standard deviation a factor of SPREAD."""

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
        for matrix, correct in terms:
            total = total - (matrix @ weights).log_softmax(0)[correct]
        total.backward()
        return total

    optimizer.step(loss)
    fitted = dict(zip(names, (NEAR * logs.exp()).tolist(), strict=True))
    against = {lens: fitted[lens] for lens in ("generalization", "attention")}
    return LensWeights(
        count={lens: fitted[lens] for lens in MEASURED},
        floor=FLOOR,
        against=against | {"dynamics": fitted["generalization"]},
        lapse=_lapse(len(learned)),
    )


def _terms(row: Row, names: Sequence[str]) -> tuple[torch.Tensor, int]:
    """What each weight multiplies [algorithms, weights], and the index of the correct algorithm."""
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
    """The rule of three: after no mistake in n models, the 95% upper bound of the error rate is
    3/n."""
    return round(3.0 / max(models, 3), 4)


def judge(row: Row, weights: LensWeights) -> tuple[str, float]:
    """Mechanism and confidence of one measured model."""
    if row["measures"] is None:
        return "unlearned", 1.0
    shares = probable(score(row["measures"], weights), weights.lapse)
    best = max(shares, key=lambda name: shares[name])
    return (best, shares[best]) if shares[best] >= MIXED else ("mixed", 1.0 - shares[best])


def quality(rows: Sequence[Row], weights: LensWeights) -> dict[str, Any]:
    """Accuracy, expected calibration error, confident mistakes, and how often the quick verdict
    agrees with the full one where it gives a mechanism."""
    verdicts = [judge(row, weights) for row in rows]
    correct = np.array([name == r["label"] for (name, _), r in zip(verdicts, rows, strict=True)])
    confidence = np.array([confidence for _, confidence in verdicts])
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [
        abs(correct[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    quick = [(row["fast"], name) for row, (name, _) in zip(rows, verdicts, strict=True)]
    decided = [(fast, name) for fast, name in quick if fast != "mixed"]
    return {
        "models": len(rows),
        "right": float(correct.mean()),
        "calibration_error": float(np.sum(gaps)),
        "confident_mistakes": int(((confidence > 0.9) & ~correct).sum()),
        "mean_confidence": float(confidence.mean()),
        "fast_told": len(decided),
        "fast_agrees": float(np.mean([a == b for a, b in decided])) if decided else None,
    }


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Every other model, so that both halves have all kinds."""
    return [row for row in rows if row["number"] % 2 == 0], [r for r in rows if r["number"] % 2]


def report(rows: list[Row], trained: Path | None, folder: Path) -> None:
    """Fit on one half, evaluate on the other and on trained models, and write the results."""
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
        "| models | n | accuracy | mean confidence | calibration error | confident mistakes |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for name, row in about["measured"].items():
        lines.append(
            f"| {name} | {row['models']} | {row['right']:.1%} | {row['mean_confidence']:.3f} "
            f"| {row['calibration_error']:.3f} | {row['confident_mistakes']} |"
        )
    lines += ["", "`--fast`, from generalization alone, compared with the full verdict:", ""]
    lines += ["| models | n | gave a mechanism | agreement |", "|---|---|---|---|"]
    for name, row in about["measured"].items():
        agreed = "-" if row["fast_agrees"] is None else f"{row['fast_agrees']:.0%}"
        lines.append(f"| {name} | {row['models']} | {row['fast_told']} | {agreed} |")
    lines += ["", "## Held out, by label and length", ""]
    lines += ["| label | length | n | accuracy | noise up to |", "|---|---|---|---|---|"]
    for label, length in sorted({(row["label"], row["spec"]["length"]) for row in held_out}):
        here = [r for r in held_out if (r["label"], r["spec"]["length"]) == (label, length)]
        accuracy = np.mean([judge(row, weights)[0] == label for row in here])
        noise = max(row["spec"]["noise"] for row in here)
        lines.append(f"| {label} | {length} | {len(here)} | {accuracy:.0%} | {noise:.4f} |")
    judged = [(row, *judge(row, weights)) for row in held_out]
    mistakes = [(row, name, sure) for row, name, sure in judged if name != row["label"]]
    if mistakes:
        lines += ["", "Mistakes:", "", "| group | label | length | verdict | confidence |"]
        lines.append("|---|---|---|---|---|")
    for row, name, sure in mistakes:
        spec = row["spec"]
        group, length = spec["group"], spec["length"]
        lines.append(f"| {group} | {row['label']} | {length} | {name} | {sure:.2f} |")
    if unseen:
        lines += ["", "## Trained models", "", _TRAINED, ""]
        lines += ["| model | label | verdict | confidence | quick |", "|---|---|---|---|---|"]
    for row in unseen:
        name, sure = judge(row, weights)
        lines.append(f"| {row['name']} | {row['label']} | {name} | {sure:.2f} | {row['fast']} |")
    return "\n".join(lines) + "\n"


_HEAD = """# Calibration of the verdict

Written by `make calibration` from `results/calibration/measures.jsonl`, which it computes if
missing: compiled models of four algorithms and several groups, with all options varied (length,
notation, start marker, unused positions, linear or hidden parity, counters, heads, unused layers,
basis, noise up to the level at which accuracy falls below 98%, sharpness, seed), and models that
have learned nothing or only parity. The weights are fitted to every other model and evaluated on
the rest.
"""

_TRAINED = """No weight was fitted to these. We labeled them by the paper's criteria: state and
parity appear together in patching, probing and training (associative), or parity
comes first (parity-associative). For models trained with an auxiliary parity loss or
on parity first, the label follows from the training. The models called other-code
were trained by a plain loop that shares no code with statetrace, with other token
ids, in the other notation, with and without a start marker. `other-code-g16` resolves
every length in its last layer at once, as counting would, so parallel fits it equally
well. The run.json of all others is in `results/calibration/runs`."""
