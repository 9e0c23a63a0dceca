"""Can the mechanism be foreseen: docs/findings/foresight.md.

    python -m reproduction.foresight --measure runs/foresight
    python -m reproduction.foresight

The first writes the layers that each link needs early in training to results/foresight, in a minute
of a CPU core per hundred models. The second compares them with the final mechanisms of the same
seeds, in results/anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from reproduction import anchors
from reproduction.findings import holm
from reproduction.judged import batches, command_line, judged, keeps_parity, write
from reproduction.lens_model import AA, NAMES
from reproduction.statistics import RESAMPLES, permutation_p, ranks
from statetrace.reports.figures.chart import Chart, Dots, Panel
from statetrace.reports.figures.study_shares import STYLES
from statetrace.studies.folder import Study
from statetrace.studies.grid import Cell

RESULTS, FIGURE = "results/foresight", "docs/findings/foresight.png"
LAYERS, EMBEDDINGS = "layers.csv", "embeddings.csv"
FAMILIES, ANCHOR = anchors.FAMILIES, "own-first-token"
STEP, LENGTHS, PAIRS = 250, (2, 3, 4), 300
LINK, LENGTH = "parity", 4
EXPLORED = 68
"""GPT-2 models of lower seeds were seen before the plan was written."""
THRESHOLD = 3.408
"""Layers, from the explored models."""
AHEAD = 0.3
"""Layers by which parity is ahead in models that keep parity in most of their wrong answers."""


@dataclass(frozen=True)
class Model:
    """A model: the layers it needs early, by link and length, the distance between the
    embeddings of even and odd actions before training, what it becomes, and the share of its wrong
    answers that have the right parity."""

    family: str
    seed: int
    layers: dict[tuple[str, int], float]
    distance: float
    end: str
    keeps: bool | None

    @property
    def early(self) -> float:
        return self.layers[LINK, LENGTH]

    @property
    def ahead(self) -> float:
        """Layers by which parity is ahead of the state."""
        return self.layers["state", LENGTH] - self.early


def measure(study: Study, folder: Path) -> None:
    """Write a row per model, link and length, and a row per model."""
    from statetrace.lenses.depth import stacked_depth
    from statetrace.lenses.loading import load_run
    from statetrace.lenses.specs import DepthSpec

    rows: list[dict[str, Any]] = []
    distances: list[dict[str, Any]] = []
    for cells in batches(study):
        loaded = [load_run(study.run(cell), STEP, "auto") for cell in cells]
        task, spec = loaded[0].task, DepthSpec(lengths=LENGTHS, pairs=PAIRS)
        results = stacked_depth([each.model for each in loaded], task, spec)
        for cell, result, at_first in zip(cells, results, initial(cells), strict=True):
            about = {name: cell.levels[name] for name in ("model", "seed")}
            for link, split in result.summary["links"].items():
                needed = zip(LENGTHS, result.summary["layers_needed"][split], strict=True)
                rows += [
                    about | {"link": link, "length": n, "needed": layers} for n, layers in needed
                ]
            distances.append(about | {"distance": round(parity_distance(at_first, task), 4)})
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / LAYERS, rows)
    write(folder / EMBEDDINGS, distances)


def initial(cells: Sequence[Cell]) -> Iterator[Any]:
    """The models before training."""
    from statetrace.config.recipe import Recipe
    from statetrace.training import setup
    from statetrace.training.parallel import join

    with join("cpu") as world:
        recipes = [Recipe.of(dict(cell.recipe)) for cell in cells]
        plan = setup.make_plan(recipes[0], world)
        for recipe in recipes:
            yield setup.make_model(plan.with_recipe(recipe))


def parity_distance(model: Any, task: Any) -> float:
    """The distance between the mean embeddings of even and odd actions, in units of the mean length
    of an embedding."""
    weight = model.get_input_embeddings().weight.detach().numpy()
    vectors = weight[np.array(task.vocabulary.elements)]
    odd = np.array(task.group.quotient(LINK).map) != 0
    between = vectors[odd].mean(0) - vectors[~odd].mean(0)
    return float(np.linalg.norm(between) / np.linalg.norm(vectors, axis=1).mean())


def read(root: Path) -> list[Model]:
    """The models that have learned the task in the end, and for which there is a number early."""
    early: dict[tuple[str, int], dict[tuple[str, int], float]] = {}
    for row in pyarrow.csv.read_csv(root / RESULTS / LAYERS).to_pylist():
        if row["needed"] is not None:
            of_model = early.setdefault((row["model"], row["seed"]), {})
            of_model[row["link"], row["length"]] = row["needed"]
    distances = {
        (row["model"], row["seed"]): row["distance"]
        for row in pyarrow.csv.read_csv(root / RESULTS / EMBEDDINGS).to_pylist()
    }
    return [
        Model(*key, layers, distances[key], end.mechanism, keeps_parity(end))
        for end in judged(root / anchors.RESULTS)
        if end["anchor"] == ANCHOR and end.learned
        for key in [(end["model"], end["seed"])]
        for layers in [early.get(key, {})]
        if (LINK, LENGTH) in layers
    ]


Statistic = Callable[[np.ndarray], float]
"""A number, given which models are chosen (1 or 0)."""


def area(values: Sequence[float]) -> Statistic:
    """Probability that a chosen value is larger than another one (area under the ROC curve)."""
    rank = ranks(values)

    def statistic(chosen: np.ndarray) -> float:
        n = chosen.sum()
        return float((rank @ chosen - n * (n - 1) / 2) / (n * (len(chosen) - n)))

    return statistic


def balanced(values: Sequence[float]) -> Statistic:
    """Balanced accuracy of the threshold."""
    above = np.asarray(values) > THRESHOLD
    return lambda chosen: float((above[chosen == 1].mean() + (~above)[chosen == 0].mean()) / 2)


Outcome = tuple[float, int, float]
"""A number, of how many models, and its one-sided p."""


def outcome(
    models: Sequence[Model],
    statistic: Callable[[Sequence[float]], Statistic] = area,
    value: Callable[[Model], float] = lambda model: model.early,
    sign: int = 1,
) -> Outcome:
    """Of models that become associative against all others."""
    number = statistic([value(model) for model in models])
    chosen = np.array([float(model.end == AA) for model in models])
    p = permutation_p(lambda order: sign * number(order), chosen.tolist())
    return number(chosen), len(models), p


def interval(models: Sequence[Model]) -> tuple[float, float]:
    """95% interval of the area, by resampling models of either class."""
    rng = np.random.default_rng(0)
    classes = [
        np.array([m.early for m in models if (m.end == AA) is flag]) for flag in (True, False)
    ]
    chosen = np.repeat([1.0, 0.0], [len(each) for each in classes])
    draws = [
        area(np.concatenate([rng.choice(each, len(each)) for each in classes]).tolist())(chosen)
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def of(models: Sequence[Model], family: str, fresh: bool = True) -> list[Model]:
    """Fresh models, or the explored ones of GPT-2."""
    seeds = range(EXPLORED) if family == "gpt2" else range(0)
    return [m for m in models if m.family == family and (m.seed not in seeds) is fresh]


def planned_tests(models: Sequence[Model]) -> dict[str, tuple[float, float]]:
    """Hypothesis -> p, and p after Holm's correction."""
    raw = {name: p for name, (_, _, p) in outcomes(models).items()}
    return {name: (raw[name], p) for name, p in holm(raw).items()}


def outcomes(models: Sequence[Model]) -> dict[str, Outcome]:
    gpt2, pythia = (of(models, family) for family in FAMILIES)
    return {
        "GPT-2, area": outcome(gpt2),
        "GPT-2, threshold": outcome(gpt2, balanced),
        "Pythia, area": outcome(pythia),
    }


def figure(models: Sequence[Model]) -> Chart:
    """Models by what they become: layers that parity needs early, distances before training."""
    found = {model.end for model in models}
    names = [name for name in STYLES if name in found]
    ticks = tuple((float(row), name) for row, name in enumerate(names))
    shown = {f"layers of {LINK}, {LENGTH} actions, step {STEP}": lambda model: model.early,
             "distance of embeddings, step 0": lambda model: model.distance}  # fmt: skip
    panels = []
    for label, value in shown.items():
        limits = [value(model) for model in models]
        for family in FAMILIES:
            mine, marks = [model for model in models if model.family == family], []
            for row, name in enumerate(names):
                some = [model for model in mine if model.end == name]
                y = [
                    row + 0.6 * ((7 * i) % 17 / 16 - 0.5) for i in range(len(some))
                ]  # side by side
                x, texts = [value(model) for model in some], [f"seed {m.seed}" for m in some]
                marks.append(Dots(name, x, y, texts, STYLES[name][0], size=4.0))
            panels.append(Panel(label, "", tuple(marks), f"{NAMES[family]}, n = {len(mine)}",
                                x_range=(0.95 * min(limits), 1.02 * max(limits)), y_ticks=ticks,
                                y_range=(-0.6, len(names) - 0.4), down=True, bare=True,
                                ))  # fmt: skip
    return Chart(
        "foresight", "What models become, and what is seen early", tuple(panels), columns=2
    )


def report(models: Sequence[Model]) -> None:
    tests = planned_tests(models)
    for name, (number, n, p) in outcomes(models).items():
        print(f"{name}: {number:.2f}, n = {n}, p {p:.3g}, corrected {tests[name][1]:.3g}")
    for family in FAMILIES:
        low, high = interval(of(models, family))
        print(f"{NAMES[family]}, area: {low:.2f} to {high:.2f}")
    links = sorted({key for model in models for key in model.layers})
    for family in FAMILIES:
        mine = [model for model in models if model.family == family]
        number, n, p = outcome(mine, value=lambda model: model.distance, sign=-1)
        print(f"{family}, distance of embeddings before training: {number:.2f}, n = {n}, p {p:.3g}")
        wrong = [m for m in mine if m.keeps is not None and ("state", LENGTH) in m.layers]
        keep = np.array([float(model.keeps or 0) for model in wrong])
        number = area([model.ahead for model in wrong])(keep)
        right = sum((model.ahead > AHEAD) == model.keeps for model in wrong)
        print(f"{family}, parity ahead: {number:.3f}, n = {len(wrong)}, keep {keep.sum():.0f}, "
              f"right with {AHEAD} layers: {right}")  # fmt: skip
        by_distance = sorted(mine, key=lambda model: model.distance)
        for half in (by_distance[: n // 2], by_distance[n // 2 :]):
            print(f"  {len(half)} by distance: {sum(model.end == AA for model in half)} {AA}")
        for kind in sorted({model.end for model in mine}):
            some = [model for model in mine if model.end == kind]
            quartiles = np.percentile([model.early for model in some], [25, 50, 75]).round(2)
            areas = {f"{key[0]} {key[1]}": round(area_of(mine, kind, key), 2) for key in links}
            print(f"{family}, {kind}: n = {len(some)}, quartiles {quartiles}, areas {areas}")


def area_of(models: Sequence[Model], kind: str, key: tuple[str, int]) -> float:
    """Of models that become of a kind against all others."""
    some = [model for model in models if key in model.layers]
    chosen = np.array([float(model.end == kind) for model in some])
    return area([model.layers[key] for model in some])(chosen)


def main() -> None:
    options = command_line(__doc__)
    if options.measure:
        measure(Study.existing(options.measure), options.root / RESULTS)
        return
    models = read(options.root)
    report(models)
    figure(models).save(options.root / FIGURE)


if __name__ == "__main__":
    main()
