"""Which group, which mechanism? docs/findings/groups.md.

    python -m reproduction.group_mechanisms --measure runs/groups
    python -m reproduction.group_mechanisms

The first tabulates a trained study. The second computes the tests and draws the figure from
results/groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.judged import Judged, run
from statetrace.reports.figures.chart import Chart

RESULTS, FIGURE = "results/groups", "docs/findings/groups.png"


def figure(models: Sequence[Judged]) -> Chart:
    raise NotImplementedError


def report(models: Sequence[Judged]) -> None:
    raise NotImplementedError


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure)
