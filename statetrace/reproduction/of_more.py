"""Numbers for sentences of the paper beside its figures' main points: where parity heads lie, how
long the sequences are that each layer knows, the order in which lengths are learned, models of
sentences, and settings.

Layers are counted as everywhere: 0 is the embedding, l the output of block l.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np

from statetrace.reproduction.kept import looked_at, of_best, sized
from statetrace.reproduction.measured import Measure, Measured, of_correlation
from statetrace.reproduction.of_patching import fronts, grid
from statetrace.reproduction.of_probing import curve
from statetrace.reproduction.of_studies import AA, PAA, RESAMPLED, judged, sizes
from statetrace.reproduction.results import (
    Missing,
    Results,
    Row,
    lens_file,
    lens_files,
    study_file,
)

Array = np.ndarray
TABLES = "statetrace/tasks/topic_tables.json"
ROUNDED = 0.003
"""How far six numbers of three digits may be from 1 in sum, each rounded by half of its last."""


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
def length_bend(model: str, least: float = 0.5) -> Measure:
    """How the longest sequences grow whose state a layer knows, that is, to which its probe gives a
    probability of `least` on average. Looked at half-way from the first layer that knows any to
    the last: 0 if the length there is the arithmetic mean of theirs, as by equal steps, 1 if it is
    the geometric one, as by doubling. The interval is that of the next lengths tried."""

    def measure(found: Results) -> Measured:
        most = looked_at(found, model) or np.inf
        rows = [
            row
            for row in found.table(lens_file(model, "probing"))
            if (row["target"], row["position"], row["metric"]) == ("state", "last", "probability")
            and row["length"] <= most
        ]
        if not rows:
            raise Missing(f"of '{model}' there are no probabilities of states by length")
        layers = range(max(row["layer"] for row in rows) + 1)
        known = [
            max((r["length"] for r in rows if r["layer"] == at and r["mean"] >= least), default=0)
            for at in layers
        ]
        sources = lens_files(model, "probing")
        words = f"longest known by layer {' '.join(map(str, known))}"
        start = next((layer for layer in layers if known[layer]), layers[-1])
        if layers[-1] - start < 2 or known[-1] <= known[start]:
            return Measured(None, words=f"known in too few layers: {words}", sources=sources)
        first, last = known[start], known[-1]
        half = float(np.interp((start + layers[-1]) / 2, layers, known))
        steps, doubling = (first + last) / 2, (first * last) ** 0.5
        words += f"; half-way {half:.3g}, by doubling {doubling:.3g}, by equal steps {steps:.3g}"
        apart = max(np.diff(sorted({row["length"] for row in rows})))
        value, low, high = (
            float((steps - half - by) / (steps - doubling)) for by in (0, apart, -apart)
        )
        return Measured(value, rows[0]["n"], "sequences", low, high, words=words, sources=sources)

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
        value = float(np.corrcoef(_ranks(list(steps)), _ranks(list(steps.values())))[0, 1])
        return Measured(value, len(steps), "lengths", *of_correlation(value, len(steps)),
                        words=words, sources=lens_files(model, "dynamics"))  # fmt: skip

    return measure


def _ranks(values: list[Any]) -> Array:
    """Places in order; equal values share the mean of theirs."""
    array = np.array(values)
    return np.array([(array < one).sum() + ((array == one).sum() - 1) / 2 for one in array])


def mean_of_folders(
    prefix: str, lens: str, number: Callable[[Results, str], tuple[float, str]], unit: str = ""
) -> Measure:
    """The mean of a number over all models whose folders begin so; `number` returns it with
    words."""

    def measure(found: Results) -> Measured:
        names = [name for name in found.folders(prefix) if found.exists(lens_file(name, lens))]
        if not names:
            raise Missing(f"no folder of results/ that begins with '{prefix}' has {lens}")
        values = [number(found, name) for name in names]
        made = Measured(float(np.mean([value for value, _ in values])), len(names), "models",
                        unit=unit, words="; ".join(said for _, said in values),
                        sources=tuple(lens_file(name, lens) for name in names))  # fmt: skip
        return sized(found, made, names)

    return measure


def leap_of(found: Results, name: str) -> tuple[float, str]:
    """The largest share of the sequence that one layer adds to what must be restored."""
    cells, _ = grid(found, name, "prefix")
    needed = fronts(cells)
    said = " ".join(map(str, needed))
    return float(max(np.diff(needed)) / cells.shape[1]), f"actions to restore, by layer {said}"


def gain_of(found: Results, name: str) -> tuple[float, str]:
    """Of what the state probe gains at the last token, the share gained in the deeper half."""
    values, _ = curve(found, name, "state")
    middle = (len(values) - 1) // 2
    said = " ".join(f"{100 * value:.0f}" for value in values)
    share = (values[-1] - values[middle]) / (values[-1] - values[0])
    return float(share), f"percent right by layer {said}"


def cutoff_gap(study: str, regimes: tuple[str, str], column: str = "cutoff") -> Measure:
    """How many lengths further models after the first regime are right than after the second, in
    the mean, resampled for its interval; nothing where all of both know all that was taught."""

    def measure(found: Results) -> Measured:
        rows = {regime: judged(found, (study,), "verdict", regime=regime) for regime in regimes}
        sources = (study_file(study),)
        ends = [np.array([_end(row, column) for row in here]) for here in rows.values()]
        if min(map(len, ends)) < 2:
            return Measured(None, words="too few models", sources=sources)
        words = "; ".join(
            f"{regime} {' '.join(f'{end:.0f}' for end in here)}, right in "
            f"{np.mean([row['accuracy'] for row in rows[regime]]):.2%}"
            for regime, here in zip(regimes, ends, strict=True)
        )
        all_rows = [row for here in rows.values() for row in here]
        if all(_end(row, column) > row["length"] for row in all_rows):
            said = f"all know every length they were taught, so that cutoffs cannot tell: {words}"
            return Measured(None, words=said, sources=sources)
        rng = np.random.default_rng(0)
        one, two = (rng.choice(here, (RESAMPLED, len(here))).mean(1) for here in ends)
        low, high = np.percentile(one - two, [2.5, 97.5])
        return Measured(float(ends[0].mean() - ends[1].mean()), len(all_rows), "models", float(low),
                        float(high), "lengths", words, sources, sizes(all_rows))  # fmt: skip

    return measure


def _end(row: Row, column: str) -> float:
    return float(row["longest"] + 1 if row[column] is None else row[column])


def kinds_of_seeds(
    study: str, same_start: bool = False, apart: str = "model", **where: Any
) -> Measure:
    """How many of AA and PAA there are among models that differ in nothing but their seed; with
    `same_start`, among those alone whose initial weights had a seed of their own. Models are told
    `apart` by a setting, and most kinds of one of its levels count."""

    def measure(found: Results) -> Measured:
        rows = judged(found, (study,), "verdict", **where)
        sources = tuple(map(study_file, found.present((study,))))
        if not rows:
            return Measured(None)
        if same_start and not (rows := [r for r in rows if r.get("init_seed") is not None]):
            words = "every seed has initial weights of its own"
            return Measured(None, words=words, sources=sources)
        tallies = {
            level: Counter(row["verdict"] for row in rows if row[apart] == level)
            for level in dict.fromkeys(row[apart] for row in rows)
        }
        kinds = max(sum(kind in tally for kind in (AA, PAA)) for tally in tallies.values())
        words = "; ".join(
            (f"{apart} {level}: " if len(tallies) > 1 else "")
            + ", ".join(f"{count} {kind}" for kind, count in tally.most_common())
            for level, tally in tallies.items()
        )
        return Measured(kinds, len(rows), "seeds", unit="mechanisms", words=words,
                        sources=sources, size=sizes(rows), at_size=_published(rows))  # fmt: skip

    return measure


def most_seeds(study: str, by: str = "model") -> Measure:
    """The largest number of seeds of one model that have a verdict."""

    def measure(found: Results) -> Measured:
        rows = judged(found, (study,), "verdict")
        sources = tuple(map(study_file, found.present((study,))))
        if not rows:
            return Measured(None)
        tally = Counter(row[by] for row in rows)
        words = ", ".join(f"{count} of {kind}" for kind, count in tally.most_common())
        most = max(tally.values())
        return Measured(most, most, "seeds", words=words, sources=sources, size=sizes(rows),
                        at_size=_published(rows))  # fmt: skip

    return measure


def _published(rows: list[Row]) -> bool:
    """Whether all are of a published size and trained on the paper's length."""
    return all((r["layers"], r["width"]) == (None, None) and r["length"] >= 100 for r in rows)


def topic_tables(found: Results) -> Measured:
    """Of the printed rows p(token | topic), the share that sum to 1 as far as they were rounded."""
    data = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
    sums = np.array([sum(row) for name, table in data.items() if name != "tokens" for row in table])
    off = np.abs(sums - 1)
    words = f"{len(data) - 1} tables; at most {off.max():.1g} from 1"
    return Measured(float((off <= ROUNDED).mean()), len(sums), "topics", unit="share", words=words,
                    sources=(TABLES,))  # fmt: skip
