"""The pictures of the concept pages, drawn by the package into docs/pictures.

    python -m website.pictures [NAME ...]     all of them take about ten minutes of one core

Bundled models are measured once into runs/pictures; the training curves are the demo's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import statetrace as st
from statetrace.reports.figures.chart import Chart, Dots, Line, Panel

FOLDER = Path("docs/pictures")
RESULTS = Path("runs/pictures")
MODELS = {"associative": "s3-associative", "parity-associative": "s3-parity-associative"}
ACTIONS = ("213", "132", "231", "321", "123", "312", "213", "132")


@cache
def _model(name: str) -> st.TrackedModel:
    return st.load(f"zoo:{MODELS[name]}", out=RESULTS / MODELS[name], device="cpu")


def _both(lens: str, figure: str | None = None, panels: int = 1, **settings: Any) -> Chart:
    """The first panels of a figure, of the two models side by side."""
    shown: list[Panel] = []
    chart = None
    for name in MODELS:
        chart = _model(name).analyze(lens, **settings)[lens].plot(figure)
        titled = [
            replace(panel, title=f"{name} model{': ' * bool(panel.title)}{panel.title}")
            for panel in chart.panels[:panels]
        ]
        shown += titled
    assert chart is not None
    return replace(chart, panels=tuple(shown), title="", columns=2 * panels)


def word_problem() -> Chart:
    """Three objects as strands, and the state after each action."""
    s3 = st.group("S3")
    states = [s3.product(ACTIONS[:n]) for n in range(1, len(ACTIONS) + 1)]
    labels = ["123", *(s3.labels[state] for state in states)]
    steps = list(range(len(labels)))
    lines = tuple(
        Line(f"object {n + 1}", steps, [int(label[n]) for label in labels], colour)
        for n, colour in enumerate(("state", "parity", "third"))
    )
    between = [step - 0.5 for step in steps[1:]]
    texts = (
        Dots("", between, [0.6] * len(between), ACTIONS, "ink", size=0.1, labelled=True),
        Dots("", steps, [3.5] * len(steps), labels, "ink", size=0.1, labelled=True),
    )
    titles = "actions (above) and the state after each (below)"
    panel = Panel("actions read", "position", (*lines, *texts), titles, down=True, whole="xy")
    return Chart("word-problem", "", (replace(panel, y_range=(0.2, 3.8)),), columns=1)


def signatures() -> Chart:
    """Figure 1 of the paper, without the column of all pairs."""
    chart = st.signatures("S3", length=16).figure().chart()
    rows = [
        chart.panels[first : first + chart.columns]
        for first in range(0, len(chart.panels), chart.columns)
    ]
    panels = []
    for everything, same, *others in rows:
        name = everything.title.partition(":")[0]
        panels += [replace(same, title=f"{name}: {same.title}"), *others]
    return replace(chart, title="", panels=tuple(panels), columns=chart.columns - 1)


def generalization() -> Chart:
    return _both("generalization")


def probing() -> Chart:
    return _both("probing", subsets=1, train=3000, test=1000, controls=())


def patching() -> Chart:
    """Same and opposite parity, for both models."""
    panels = []
    for name in MODELS:
        model = _model(name)
        result = model.analyze("patching", pairs=100, grids="prefix-substitution-resid")["patching"]
        for pairs in ("same parity", "opposite parity"):
            panel = result.plot(pairs=pairs).panels[0]
            panels.append(replace(panel, title=f"{name}: {pairs}"))
    return Chart("patching", "", tuple(panels), columns=2)


def depth() -> Chart:
    return _both("depth", pairs=100)


def attention() -> Chart:
    chart = _model("parity-associative").analyze("attention")["attention"].plot("attention-maps")
    return replace(chart, title="", panels=chart.panels[:2])


def geometry() -> Chart:
    settings: dict[str, Any] = {"sequences": 2000, "permutations": 100}
    chart = _model("parity-associative").analyze("geometry", **settings)["geometry"].plot()
    return replace(chart, title="")


def dynamics() -> Chart:
    demo = st.train("demo", out=RESULTS / "demo", resume=True)
    return replace(demo.analyze("dynamics")["dynamics"].plot(), title="")


def subspace() -> Chart:
    return _both("subspace")


def verdict() -> Chart:
    """The map of mechanisms, of two models."""
    panels: list[Panel] = []
    for number, name in enumerate(MODELS, start=1):
        results = _model(name).analyze(["generalization", "depth"])
        place, needed = results["depth"].plot("map").panels
        panels += [replace(place, title=f"trained model {number}"), needed]
    return Chart("verdict", "", tuple(panels), columns=2)


PICTURES: dict[str, Callable[[], Chart]] = {
    "word-problem": word_problem,
    "signatures": signatures,
    "verdict": verdict,
    "generalization": generalization,
    "probing": probing,
    "patching": patching,
    "depth": depth,
    "attention": attention,
    "geometry": geometry,
    "dynamics": dynamics,
    "subspace": subspace,
}
"""In the order of the pages; name -> what draws it."""


def draw(name: str, folder: Path = FOLDER) -> Path:
    """Write one picture with a small palette."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.png"
    PICTURES[name]().save(file)
    Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)
    return file


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        print(draw(name))
