"""Pictures show the numbers of the rows that lead to them: read off the chart, and measured."""

from itertools import pairwise

import numpy as np
import pytest

from reproduction.claim import answer
from reproduction.claims import CLAIMS
from reproduction.figures.build import PICTURES
from reproduction.figures.evidence import TIES
from reproduction.measures.studies import AA
from reproduction.results import Results
from statetrace.reports.figures.chart import ReferenceLine

NAMED = {claim.name: claim for claim in CLAIMS}


def panel_of(chart, begins):
    return next(panel for panel in chart.panels if panel.title.startswith(begins))


def mark_of(panel, name):
    return next(mark for mark in panel.marks if getattr(mark, "name", "") == name)


def fronts(chart, begins):
    """By layer, how many actions have to be restored."""
    cells = np.array(panel_of(chart, begins).heat.z)
    return [int((row >= 0.99).argmax()) + 1 for row in cells]


def whole(chart, begins):
    """The first layer at which all actions have to be."""
    found = fronts(chart, begins)
    return found.index(len(panel_of(chart, begins).heat.x))


def paa_maps(chart):
    return [
        np.array(panel_of(chart, f"PAA, {split}").heat.z) for split in ("all", "same", "opposite")
    ]


def half(chart, of=0):
    """Of all pairs, where those of the same parity are restored and the others are not."""
    maps = paa_maps(chart)
    return maps[of][(maps[1] >= 0.5) & (maps[2] < 0.5)].mean()


def whole_region(chart, inside=0):
    """Where both are; inside, but for what every model restores."""
    every, same, opposite = (cells[inside:, : cells.shape[1] - inside] for cells in paa_maps(chart))
    return every[(same >= 0.5) & (opposite >= 0.5)].mean()


def settled(chart, begins):
    """By layer, how many actions have to be restored for half of the answer."""
    cells = np.array(panel_of(chart, begins).heat.z)
    return [int((row >= 0.5).argmax()) + 1 for row in cells]


def bent(chart, begins):
    """A front of as many steps as layers, half-way, between equal steps and doubling."""
    found = settled(chart, begins)
    first, middle, last = found[0], found[len(found) // 2], found[-1]
    steps = (first + last) / 2
    return (steps - middle) / (steps - (first * last) ** 0.5)


def leap(chart, begins):
    found = settled(chart, begins)
    return max(np.diff(found)) / found[-1]


def sparser_layers(chart, begins):
    cells = np.array(panel_of(chart, begins).heat.z)[:, :-1]
    counts = (np.abs(cells) >= 0.5).sum(1)
    return sum(0 < after < before for before, after in pairwise(counts))


def alike(chart):
    """Of panels with cutoffs, the share in which both are one."""
    ends = [
        [mark.at for mark in panel.marks if isinstance(mark, ReferenceLine)]
        for panel in chart.panels
        if "cutoffs" in panel.title
    ]
    assert all(len(each) == 2 for each in ends)
    return np.mean([state == parity for state, parity in ends])


def off(chart, begins, target="state"):
    """How far the state's line, or parity's, is at most from the paper's."""
    panel = panel_of(chart, begins)
    lines = [mark.y for mark in panel.marks if mark.name in (target, "the paper's l/n or 2ˡ/n")]
    return float(np.abs(np.subtract(*lines)).max())


def deeper(chart):
    """Tokens in the deeper half by those in the first."""
    tokens = np.array(last(chart, "AA", "mean of heads and targets"))
    half = len(tokens) // 2
    return tokens[half:].mean() / tokens[:half].mean()


def not_solvable(chart):
    lines = panel_of(chart, "derived").marks
    return min(int(line.name[1:]) for line in lines if line.y[-1] > 0)


def gap(chart, number):
    aa, paa = (mark.y[0] for mark in chart.panels[number].marks if mark.name == "mean")
    return aa - paa


def agreeing(chart):
    """Both numbers at most 0, or both above, of models of which both lenses can tell."""
    sides = [
        (x > 0) == (y > 0)
        for mark in chart.panels[0].marks
        if hasattr(mark, "texts") and not mark.name.startswith(TIES)
        for x, y in zip(mark.x, mark.y, strict=True)
    ]
    return np.mean(sides)


def at_size(chart, kind):
    """Points above chance, and points of parity lost, of models of the paper's size."""
    marks = [m for m in chart.panels[0].marks if getattr(m, "name", "").startswith(f"{kind}: ")]
    return [m.x[0] for m in marks], [m.y[0] for m in marks]


def prisms_of(chart):
    return mark_of(chart.panels[0], "PAA: prism score (1: a perfect one)")


def off_60(chart, name):
    """Of one model's lines, by its place in the title."""
    at = prisms_of(chart).texts.index(name)
    lines = mark_of(chart.panels[1], "the same as undirected lines")
    return max(abs(y - 60) for x, y in zip(lines.x, lines.y, strict=True) if x == at)


def kinds(shares):
    return (max(shares) >= 0.95) + (min(shares) <= 0.6)


def alike_cells(chart):
    """Cells less than ten times apart."""
    marks = [m for m in panel_of(chart, "all cells").marks if hasattr(m, "texts")]
    apart = np.concatenate([np.subtract(m.x, m.y) for m in marks])
    return (np.abs(apart) < 1).mean()


def nearest_by_others(distances):
    return distances[0] / np.mean(distances[1:])


def tall(panel, mechanism, begins):
    """The bars of a mechanism whose tick begins so."""
    places = [at for at, text in panel.ticks if text.startswith(begins)]
    bars = mark_of(panel, mechanism)
    return [y for x, y in zip(bars.x, bars.y, strict=True) if min(abs(x - p) for p in places) < 0.5]


def kept_by_swap(chart):
    """States from which the swap stays in the cluster and the 3-cycle leaves it."""
    own, swap, cycle = (
        mark_of(panel_of(chart, "S3, labels read as 'receives'"), name).y
        for name in ("its own cluster", "after the swap 213", "after the 3-cycle 312")
    )
    return np.mean([a == b != c for a, b, c in zip(own, swap, cycle, strict=True)])


def last(chart, begins, name):
    return mark_of(panel_of(chart, begins), name).y


READ = {
    "not-solvable": not_solvable,
    "clusters-by-generators": kept_by_swap,
    "associative-layers": lambda chart: whole(chart, "associative"),
    "sequential-layers": lambda chart: whole(chart, "sequential"),
    "paa-layers": lambda chart: whole(chart, "PAA, same") - whole(chart, "PAA, opposite"),
    "paa-half": half,
    "paa-whole": whole_region,
    "aa-patching": lambda chart: bent(chart, "AA, all"),
    "bend-associative": lambda chart: bent(chart, "AA, same"),
    "bend-parity-associative": lambda chart: bent(chart, "PAA, same"),
    "bend-opposite": lambda chart: bent(chart, "AA, opposite"),
    "leap-associative": lambda chart: leap(chart, "AA, same"),
    "opposite-parity-paa": lambda chart: leap(chart, "PAA, opposite"),
    "paa-plateau": half,
    "opposite-middle": lambda chart: half(chart, 2),
    "paa-restored": lambda chart: whole_region(chart, 1),
    "aa-window": lambda chart: sparser_layers(chart, "AA, single"),
    "paa-window": lambda chart: sparser_layers(chart, "PAA, single"),
    "text-mechanism": alike,
    "associative-probe": lambda chart: off(chart, "associative"),
    "sequential-probe": lambda chart: off(chart, "sequential"),
    "parallel-exists": lambda chart: min(last(chart, "compiled", "parallel")),
    "same-parity-depth": lambda chart: np.ptp(last(chart, "PAA", "same parity")),
    "table-1-paa-state": lambda chart: max(last(chart, "PAA", "state")),
    "table-1-aa-parity": lambda chart: max(last(chart, "AA", "parity")),
    "lenses-agree": agreeing,
    "prism-pairings": lambda chart: len(
        {text.split("\n", 1)[1] for at, text in chart.panels[0].ticks if at in prisms_of(chart).x}
    ),
    "prism-all": lambda chart: np.mean(np.array(prisms_of(chart).y) >= 0.5),
    "prism-angles": lambda chart: off_60(chart, "pythia-160m, step 20,000"),
    "aa-parity-last": lambda chart: kinds(last(chart, "", "a probe of the last layer")),
    "table-1-cells": alike_cells,
    "s5-prongs": lambda chart: nearest_by_others(last(chart, "clusters around", "a cluster")),
    "table-2-s3-paa-1": lambda chart: last(chart, "S3, PAA", "ours")[0],
    "table-2-s3-aa-2": lambda chart: last(chart, "S3, AA", "ours")[1],
    "table-2-s5-paa-3": lambda chart: last(chart, "S5, PAA", "ours")[2],
    "table-2-s5-aa-1": lambda chart: last(chart, "S5, AA", "ours")[0],
    "aa-no-heads": lambda chart: max(at_size(chart, "AA")[0]),
    "paa-heads": lambda chart: min(at_size(chart, "PAA")[0]),
    "heads-needed": lambda chart: np.mean(np.array(at_size(chart, "PAA")[1]) >= 25),
    "aa-further": lambda chart: gap(chart, 0),
    "aa-converges": lambda chart: gap(chart, 1),
    "lockstep-logs": lambda chart: np.mean(np.array(last(chart, "the paper", "associative")) < 0.1),
    "phases-logs": lambda chart: np.mean(
        np.array(last(chart, "the paper", "parity-associative")) > 0.1
    ),
    "topic-1-cutoffs": lambda chart: tall(chart.panels[0], AA, "topic 1")[0],
    "topic-2-cutoffs": lambda chart: tall(chart.panels[0], AA, "topic 2")[0],
    "aa-loss": lambda chart: gap(chart, 0),
    "sparser": deeper,
    "s5-merged": lambda chart: min(last(chart, "clusters", "two clusters")),
    "s5-not-three": lambda chart: last(chart, "n =", "variance up to this one")[-1],
    "s5-mirrored": lambda chart: last(chart, "an even", "shared")[0],
    "associative-parity-probe": lambda chart: off(chart, "associative", "parity"),
    "sequential-parity-probe": lambda chart: off(chart, "sequential", "parity"),
    "sequential-exists": lambda chart: min(last(chart, "compiled", "sequential")),
    "length-25": lambda chart: np.mean(np.array(mark_of(chart.panels[0], "state").y) >= 0.98),
}
"""Claim -> its number, read off its picture."""


@pytest.fixture(scope="module")
def found(request):
    return Results(request.config.rootpath)


@pytest.mark.parametrize("name", READ)
def test_the_picture_shows_the_number(found, name):
    one = answer(NAMED[name], found)
    chart = PICTURES[NAMED[name].picture](found)
    assert READ[name](chart) == pytest.approx(one.found.value, rel=2e-3, abs=1e-4)


def test_both_groups_have_one_table(found):
    """S3's and D3's, by the places of their labels along the axis."""
    tables = []
    for panel in PICTURES["tables"](found).panels[:2]:
        at = {text: place for place, text in panel.ticks}
        marks = (mark for mark in panel.marks if mark.texts)
        tables.append(
            {
                (x, y): at[text]
                for mark in marks
                for x, y, text in zip(mark.x, mark.y, mark.texts, strict=True)
            }
        )
    assert tables[0] == tables[1]
    assert len(tables[0]) == 36


def test_the_examples_end_where_the_rows_say(found):
    ends = [panel.ticks[-1][1].split("\n")[1] for panel in PICTURES["examples"](found).panels]
    assert ends == ["32514", "312", "123"]
    first = PICTURES["examples"](found).panels[0]
    places = {mark.texts[0]: mark.y[-1] for mark in first.marks if getattr(mark, "texts", ())}
    assert sorted(places, key=places.get) == list("DBAEC")
