"""Numbers from the parity heads of models, and from the tree that attention forms (section 4.5,
appendix F).

Caveat: the chance level is what the best of all heads scores on average for arbitrary sets of as
many actions, of which there are few. A model without parity heads lies above it about every second
time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.measured import Measure, Measured, of_correlation, share_of
from reproduction.model_selection import large_ones, of_best, sized
from reproduction.results import Missing, Results, lens_file, lens_files
from statetrace.lenses.parts.intervals import quantile
from statetrace.mechanisms.distances import LOST

Array = np.ndarray
Extreme = Callable[..., Any]
"""min or max: which of all models a claim about all of them hangs on."""
NAMED = {min: "the least of all", max: "the most of all"}


@of_best
def head_score(model: str, rank: int) -> Measure:
    """The parity-head score (percent) of the best, second, ... head, with its interval."""

    def measure(found: Results) -> Measured:
        heads = sorted(found.table(lens_file(model, "attention")), key=lambda row: -row["mean"])
        about = found.json(lens_file(model, "attention", "json"))["summary"]
        if len(heads) < rank or "top_score_by_chance" not in about:
            raise Missing(f"of '{model}' there are no scores of {rank} parity heads")
        head = heads[rank - 1]
        words = (
            f"layer {head['layer']}, head {head['head']}, deviation {head['std']:.1f}; by chance "
            f"the best of all heads gets {about['top_score_by_chance']:.1f}, of at most "
            f"{about['score_ceiling']:.1f}"
        )
        return Measured(head["mean"], head["n"], "sequences", head["low"], head["high"], "%", words,
                        lens_files(model, "attention", "attention.json"))  # fmt: skip

    return measure


@dataclass(frozen=True)
class Head:
    """The best parity head of a model.

    Attributes:
        score, low, high: percent, with its interval over sequences.
        chance: what the best head scores for arbitrary sets of actions.
        lost: points of parity lost where its output is set to its mean; None if no one looked.
    """

    score: float
    low: float
    high: float
    chance: float
    lost: float | None

    @property
    def surplus(self) -> float:
        return self.score - self.chance


def best_head(found: Results, model: str) -> Head:
    rows = [r for r in found.table(lens_file(model, "attention")) if r["measure"] == "head score"]
    about = found.json(lens_file(model, "attention", "json"))["summary"]
    if not rows or "top_score_by_chance" not in about:
        raise Missing(f"of '{model}' there are no scores of parity heads")
    best = max(rows, key=lambda row: float(row["mean"]))
    without = {(one["heads"], one["method"]): one["drop"] for one in about.get("ablation") or ()}
    drop = without.get(("top 1", "mean"))
    lost = None if drop is None else 100 * drop[about["quotient"]]
    return Head(best["mean"], best["low"], best["high"], about["top_score_by_chance"], lost)


def best_heads(found: Results, model: str) -> dict[str, Head]:
    """Of all models of the paper's size, one for each run."""
    heads = {}
    for name in large_ones(found, model, "attention.json"):
        with contextlib.suppress(Missing):
            heads[name] = best_head(found, name)
    return heads


def beyond_chance(model: str, extreme: Extreme) -> Measure:
    """Points by which the best parity head scores more than by chance, of all models of the paper's
    size in the one in which that is least or most; its interval is over sequences."""

    def measure(found: Results) -> Measured:
        heads = best_heads(found, model)
        if not heads:
            raise Missing("no model of the paper's size has scores of parity heads")
        chosen = extreme(heads.values(), key=lambda head: head.surplus)
        listed = ", ".join(f"{head.score:.1f} ({head.chance:.1f})" for head in heads.values())
        words = f"best heads' scores (by chance) {listed}"
        if len(heads) > 1:
            words = f"{NAMED[extreme]}; {words}"
        sources = tuple(
            f for name in heads for f in lens_files(name, "attention", "attention.json")
        )
        made = Measured(chosen.surplus, len(heads), "models", chosen.low - chosen.chance,
                        chosen.high - chosen.chance, "points", words, sources)  # fmt: skip
        return sized(found, made, list(heads))

    return measure


def needed_heads(model: str) -> Measure:
    """Of all models of the paper's size, the share in which parity is lost with the best parity
    head (its output at its mean): by as much as the verdict asks."""

    def measure(found: Results) -> Measured:
        heads = best_heads(found, model)
        lost = {name: head.lost for name, head in heads.items() if head.lost is not None}
        listed = ", ".join(f"{points:.1f}" for points in lost.values()).replace("-0.0", "0.0")
        words = f"{100 * LOST:.0f} points and more; lost {listed}"
        sources = tuple(lens_file(name, "attention", "json") for name in lost)
        passed = sum(points >= 100 * LOST for points in lost.values())
        return sized(found, share_of(passed, len(lost), "models", sources, words), list(lost))

    return measure


@of_best
def odd_attention(model: str) -> Measure:
    """Of a top head's attention to actions, the share on odd ones, over targets that could do
    otherwise: for the one of the top heads that looks at them most."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "drawn", "json")
        drawn = found.json(file)
        if "maps" not in drawn:
            raise Missing(f"of '{model}' there are no maps of parity heads")
        odd = np.array(drawn["odd"])
        heads = [_odd_shares(np.array(weights), odd) for weights in drawn["maps"]]
        if min(map(len, heads)) < 2:
            return Measured(None, words="too short a sequence", sources=(file,))
        most = max(heads, key=lambda shares: float(shares.mean()))
        error = float(quantile() * most.std(ddof=1) / len(most) ** 0.5)
        value = float(most.mean())
        said = ", ".join(
            f"{100 * shares.mean():.0f}% (layer {layer}, head {head})"
            for shares, (layer, head) in zip(heads, drawn["heads"], strict=True)
        )
        words = f"one sequence, {int(odd.sum())} of {len(odd)} actions odd; by score: {said}"
        return Measured(value, len(most), "targets", value - error, min(1.0, value + error),
                        "share", words, (file,))  # fmt: skip

    return measure


def _odd_shares(weights: Array, odd: Array) -> Array:
    """By target with both kinds before it, the share on odd ones of what goes to actions."""
    return np.array([
        row[: t + 1][odd[: t + 1]].sum() / row[: t + 1].sum()
        for t, row in enumerate(weights)
        if 0 < odd[: t + 1].sum() < t + 1
    ])  # fmt: skip


@of_best
def heads_depth(model: str, score: float = 50, heads: int = 2) -> Measure:
    """The share of the depth by which there are so many heads whose score, with its interval, lies
    above a bound."""

    def measure(found: Results) -> Measured:
        rows = found.table(lens_file(model, "attention"))
        sources = lens_files(model, "attention")
        rows = [row for row in rows if row["measure"] == "head score"]
        above = sorted((row for row in rows if row["low"] > score), key=lambda row: row["layer"])
        words = ", ".join(f"layer {r['layer']}, head {r['head']} ({r['mean']:.0f}%)" for r in above)
        if len(above) < heads:
            said = f"fewer than {heads} heads above {score:.0f}%: {words or 'none'}"
            return Measured(None, words=said, sources=sources)
        last = max(row["layer"] for row in rows)
        value = above[heads - 1]["layer"] / last
        return Measured(value, len(rows), "heads", unit="share", sources=sources,
                        words=f"of {last} layers; above {score:.0f}%: {words}")  # fmt: skip

    return measure


@of_best
def widening_tree(model: str) -> Measure:
    """Rank correlation of a layer with the mean distance that its tree edges span; in words also
    with edges of less weight, where there is a folder MODEL-loose."""

    def measure(found: Results) -> Measured:
        files = [lens_file(model, "attention", "json")]
        looser = lens_file(f"{model}-loose", "attention", "json")
        files += [looser] if found.exists(looser) else []
        values, said = [], []
        for file in files:
            about = found.json(file)
            spans = [span for span in about["summary"].get("tree_span", ()) if span is not None]
            if len(spans) < 3:
                return Measured(None, words="too few layers with edges", sources=tuple(files))
            ranks = np.argsort(np.argsort(spans))
            values.append((float(np.corrcoef(ranks, np.arange(len(spans)))[0, 1]), len(spans)))
            listed = " ".join(f"{span:.1f}" for span in spans)
            said.append(f"{listed} with edges of weight {about['spec']['weight']} and more")
        value, layers = values[0]
        words = f"rank correlation; mean spans by layer {', '.join(said)}"
        ends = of_correlation(value, layers)
        return Measured(value, layers, "layers", *ends, words=words, sources=tuple(files))

    return measure
