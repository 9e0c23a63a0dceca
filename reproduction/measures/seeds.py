"""Numbers from models of one study that differ in their seed, or in what they were taught."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from reproduction.measured import Measure, Measured, mean_gap
from reproduction.measures.studies import AA, PAA, judged, sizes
from reproduction.results import Results, Row, study_file


def kinds_of_seeds(
    study: str, same_start: bool = False, apart: tuple[str, ...] = ("model",), **where: Any
) -> Measure:
    """How many of AA and PAA there are among models that differ in nothing but their seed; with
    `same_start`, among those alone whose initial weights had a seed of their own. Models are told
    `apart` by settings, and most kinds of models that are equal in these count."""

    def measure(found: Results) -> Measured:
        rows = judged(found, (study,), "verdict", **where)
        sources = tuple(map(study_file, found.present((study,))))
        if not rows:
            return Measured(None)
        if same_start and not (rows := [r for r in rows if r.get("init_seed") is not None]):
            words = "every seed has initial weights of its own"
            return Measured(None, words=words, sources=sources)
        tallies: dict[str, Counter[str]] = {}
        for row in rows:
            what = ", ".join(f"{name} {row[name]}" for name in apart)
            tallies.setdefault(what, Counter())[row["verdict"]] += 1
        kinds = max(sum(kind in tally for kind in (AA, PAA)) for tally in tallies.values())
        words = "; ".join(
            (f"{what}: " if len(tallies) > 1 else "")
            + ", ".join(f"{count} {kind}" for kind, count in tally.most_common())
            for what, tally in tallies.items()
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
        value, low, high = mean_gap(*ends)
        return Measured(value, len(all_rows), "models", low, high, "lengths", words, sources,
                        sizes(all_rows))  # fmt: skip

    return measure


def _end(row: Row, column: str) -> float:
    return float(row["longest"] + 1 if row[column] is None else row[column])


def loss_gap(study: str) -> Measure:
    """How much higher the loss is at which AA models end than that of PAA models (losses.py), in
    the mean, resampled for its interval."""

    def measure(found: Results) -> Measured:
        file = f"results/{study}/losses.csv"
        ends = {row["cell"]: row["loss"] for row in found.table(file)}
        rows = [row for row in judged(found, (study,), "verdict") if row["cell"] in ends]
        losses = [
            np.array([ends[row["cell"]] for row in rows if row["verdict"] == kind])
            for kind in (AA, PAA)
        ]
        sources = (file, study_file(study))
        if min(map(len, losses)) < 2:
            return Measured(None, words="too few of either mechanism", sources=sources)
        one, two = losses
        gap = mean_gap(one, two)
        words = f"AA {one.mean():.3g} ({len(one)} models), PAA {two.mean():.3g} ({len(two)})"
        return Measured(gap[0], len(one) + len(two), "models", *gap[1:], words=words,
                        sources=sources, size=sizes(rows))  # fmt: skip

    return measure
