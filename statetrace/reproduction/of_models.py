"""Numbers from attention, geometry, training and accuracy by length of single models (sections 4.3
to 5.1).

Layers are counted as everywhere: 0 is the embedding, l the output of block l.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from statetrace.lenses.parts.intervals import quantile
from statetrace.reproduction.kept import P, large_ones, need_converged, of_best, sized, zoo
from statetrace.reproduction.measured import Measure, Measured, of_correlation, share_of
from statetrace.reproduction.of_probing import curve
from statetrace.reproduction.results import Missing, Results, lens_file, lens_files

Array = np.ndarray
LINEAR = 0.95
"""Accuracy of a probe from which on parity counts as linear."""


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
            f"the best of all heads gets {about['top_score_by_chance']:.1f}, at most is "
            f"{about['score_ceiling']:.1f}"
        )
        return Measured(head["mean"], head["n"], "sequences", head["low"], head["high"], "%", words,
                        lens_files(model, "attention", "attention.json"))  # fmt: skip

    return measure


def needed_heads(model: str) -> Measure:
    """Of all models of the paper's size, the share in which the best parity head stands out from
    chance and parity is lost with it (its output at its mean), as the verdict asks."""

    def measure(found: Results) -> Measured:
        summaries = {
            name: found.json(lens_file(name, "attention", "json"))["summary"]
            for name in large_ones(found, model, "attention.json")
        }
        names = [name for name, about in summaries.items() if about.get("ablation")]
        passed, said = 0, []
        for about in (summaries[name] for name in names):
            lost = {(one["heads"], one["method"]): one["drop"] for one in about["ablation"]}
            best, drop = about["top_heads"][0]["score"], lost["top 1", "mean"][about["quotient"]]
            passed += best > about["top_score_by_chance"] and drop > 0
            points = round(100 * drop, 1) + 0.0  # no -0.0
            said.append(f"{best:.0f}% ({about['top_score_by_chance']:.0f}%), {points}")
        words = f"scores (by chance) and points of parity lost: {'; '.join(said)}"
        sources = tuple(lens_file(name, "attention", "json") for name in names)
        return sized(found, share_of(passed, len(names), "models", sources, words), names)

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


def parity_is_linear(found: Results, model: str) -> bool:
    """Whether a probe reads it from the last layer."""
    parity, _ = curve(found, model, "parity")
    return bool(parity[-1] >= LINEAR)


@of_best
def last_variance(model: str, linear: bool) -> Measure:
    """What the principal components explain of the last layer, of a model in which parity is linear
    there or is not."""

    def measure(found: Results) -> Measured:
        if parity_is_linear(found, model) != linear:
            raise Missing(f"in '{model}' parity is {'not ' * linear}linear in the last layer")
        about = found.json(lens_file(model, "geometry", "json"))["summary"]
        parts, n = about["explained_variance"], about["sequences"]
        words = "components " + " ".join(f"{100 * part:.1f}%" for part in parts)
        value = float(sum(parts))
        off = float(quantile()) * value * (1 - value) * (2 / n) ** 0.5  # as of normal activations
        return Measured(value, n, "sequences", value - off, value + off, "share", words,
                        lens_files(model, "geometry.json"))  # fmt: skip

    return measure


def share_of_shapes(models: tuple[str, ...], test: Callable[[dict[str, Any]], bool]) -> Measure:
    """Of several models of the zoo and all of the paper's size, the share whose clearest prism
    passes a test."""

    def measure(found: Results) -> Measured:
        files, size = _shapes(found, models)
        prisms = [found.json(file)["summary"]["prism"] for file in files]
        scores = ", ".join(f"{prism['score']:.2f}" for prism in prisms)
        words = f"prism scores {scores}" if prisms else ""
        return share_of(sum(map(test, prisms)), len(prisms), "models", files, words, size)

    return measure


def pairings(models: tuple[str, ...]) -> Measure:
    """How many different ways of pairing states several prisms have."""

    def measure(found: Results) -> Measured:
        files, size = _shapes(found, models)
        if not files:
            return Measured(None)
        found_pairs = [found.json(file)["summary"]["prism"]["pairs"] for file in files]
        kinds = {tuple(sorted(tuple(sorted(pair)) for pair in pairs)) for pairs in found_pairs}
        words = "; ".join(" ".join("+".join(pair) for pair in pairs) for pairs in found_pairs)
        return Measured(len(kinds), len(files), "models", unit="pairings", words=words,
                        sources=files, size=size)  # fmt: skip

    return measure


def _shapes(found: Results, models: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Files of the models that have a prism, and the models' names."""
    large = large_ones(found, P, "geometry.json")
    names = [*map(zoo, models), *large]
    files = {name: lens_file(name, "geometry", "json") for name in names}
    there = {
        name: file
        for name, file in files.items()
        if found.exists(file) and found.json(file)["summary"].get("prism")
    }
    size = ", ".join(name.removeprefix("zoo/") for name in there if name not in large)
    at_size = ", ".join(name for name in there if name in large)
    return tuple(there.values()), f"{size}; of the paper's size {at_size}" if at_size else size


@of_best
def cutoffs(model: str, relative: bool = False) -> Measure:
    """How many lengths parity's cutoff lies beyond that of the state, or which share of it; the
    interval is as wide as both cutoffs' own (resampled) allow."""

    def measure(found: Results) -> Measured:
        about = found.json(lens_file(model, "generalization", "json"))
        summary = about["summary"]
        beyond = summary["longest"] + 1
        (state, low, high), (parity, parity_low, parity_high) = (
            [summary["cutoff"][what][key] or beyond for key in ("first_below", "low", "high")]
            for what in ("state", "parity")
        )
        words = f"state {state}, parity {parity}, trained on {summary['training_length']}"
        unit = state if relative else 1
        return Measured((parity - state) / unit, about["spec"]["sequences"], "sequences",
                        (parity_low - high) / unit, (parity_high - low) / unit, words=words,
                        sources=lens_files(model, "generalization.json"))  # fmt: skip

    return measure


@of_best
def reach(model: str) -> Measure:
    """The state cutoff in units of the training length, of a model that was trained to the end."""

    def measure(found: Results) -> Measured:
        need_converged(found, model)
        about = found.json(lens_file(model, "generalization", "json"))
        summary = about["summary"]
        cutoff, trained = summary["cutoff"]["state"], summary["training_length"]
        at, low, high = (
            (cutoff[key] or summary["longest"] + 1) / trained
            for key in ("first_below", "low", "high")
        )
        return Measured(at, about["spec"]["sequences"], "sequences", low, high,
                        words=f"{cutoff['first_below']} of {trained}",
                        sources=lens_files(model, "generalization.json"))  # fmt: skip

    return measure


@of_best
def accuracy_beyond(model: str, times: float) -> Measure:
    """Share of states right at so many times the training length, of a model that was trained to
    the end."""

    def measure(found: Results) -> Measured:
        need_converged(found, model)
        summary = found.json(lens_file(model, "generalization", "json"))["summary"]
        length = round(times * summary["training_length"])
        sources = lens_files(model, "generalization", "generalization.json")
        rows = [
            row
            for row in found.table(lens_file(model, "generalization"))
            if (row["what"], row["length"]) == ("state", length)
        ]
        if not rows:
            return Measured(None, words=f"not tried at length {length}", sources=sources)
        row = rows[0]
        return Measured(row["accuracy"], row["n"], "sequences", row["low"], row["high"], "share",
                        f"at length {length}", sources)  # fmt: skip

    return measure


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
def by_length(model: str, threshold: float = 0.9) -> Measure:
    """Rank correlation of lengths with the step at which their states were first right in
    `threshold` of the cases, over lengths that were."""

    def measure(found: Results) -> Measured:
        rows = [
            row
            for row in found.table(lens_file(model, "dynamics"))
            if (row["measure"], row["what"], row["threshold"]) == ("reached", "state", threshold)
            and row["step"] is not None
        ]
        if len({row["step"] for row in rows}) < 3:
            raise Missing(f"of '{model}' too few lengths were learned at different steps")
        steps = {row["length"]: row["step"] for row in sorted(rows, key=lambda r: r["length"])}
        shown = list(steps)[:: max(1, len(steps) // 6)]
        words = f"{threshold:.0%} right at " + ", ".join(
            f"{n} from step {steps[n]:,}" for n in shown
        )
        value = float(np.corrcoef(ranks(list(steps)), ranks(list(steps.values())))[0, 1])
        return Measured(value, len(steps), "lengths", *of_correlation(value, len(steps)),
                        words=words, sources=lens_files(model, "dynamics"))  # fmt: skip

    return measure


def ranks(values: list[Any]) -> Array:
    """Places in order; equal values share the mean of theirs."""
    array = np.array(values)
    return np.array([(array < one).sum() + ((array == one).sum() - 1) / 2 for one in array])
