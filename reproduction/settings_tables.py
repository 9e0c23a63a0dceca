"""Settings of the paper beside ours, for training and for analysis: two tables of
REPRODUCTION.md."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable
from typing import Any

from reproduction.claim import settings
from reproduction.model_selection import LARGE, S5_A, S5_P, A, P, about, first, steps_of
from reproduction.results import Missing, Results, lens_file
from statetrace.config.stages import default_layer
from statetrace.tasks.topics import CONCENTRATION, MIXTURE, TOPICS

PAPER_RECIPE, SMALL_RECIPE = "recipes/paper/s3-gpt2.toml", "recipes/studies/small.toml"
STUDIES = ("scratch", "small")
"""Of the paper's size, and smaller."""
PLANNED = 20 * 900_000 // 128
PUBLISHED = 12
"""Layers of GPT-2 and of Pythia-160M."""
TRAINING = (
    ("actions per sequence", "length", 100),
    ("held out for analysis", "analysis_fraction", 0.1),
    ("batch", "batch", 128),
    ("learning rate", "learning_rate", 5e-5),
    ("steps that are planned (20 epochs of 900,000)", "steps", PLANNED),
)
"""What the paper trains with (section 4.1): in words, the recipe's key, the paper's number."""
SEQUENCES = 1_000_000
LENGTHS, LENGTHS_RECIPE = "10 → 25 → 50 → 100", "recipes/regimes/length.toml"


def training_table(found: Results, link: Callable[[str], str]) -> list[str]:
    """The lines of the table."""
    at_size, small = (settings(found.root, recipe) for recipe in (PAPER_RECIPE, SMALL_RECIPE))
    grown = tomllib.loads((found.root / LENGTHS_RECIPE).read_text())["stage"]
    lengths = " → ".join(str(stage["length"]) for stage in grown)
    drawn = "different sequences, as runs of such models had"
    rows: list[tuple[str, Any, Any, Any]] = [  # in words, the paper's, ours, of small models
        (drawn, SEQUENCES, _sequences(found, STUDIES[0]), _sequences(found, STUDIES[1]))
    ]
    rows += [(words, paper, at_size[key], small.get(key)) for words, key, paper in TRAINING]
    rows += [
        (words, paper, ours, ours)
        for words, ours, paper in (
            ("topics of the topic model", TOPICS, 4),
            ("Dirichlet parameter of topics", MIXTURE, 0.3),
            ("Dirichlet parameter of words", CONCENTRATION, 0.1),
        )
    ]
    rows += _ran(found)
    at_block, small_block = _classified(found)
    rows.append(("layer that a classifier reads (App. H)", "e.g. 3", at_block, small_block))
    rows.append(("lengths of the length curriculum (App. H)", LENGTHS, lengths, None))
    lines = [
        "## What models were trained with (§4.1)",
        "",
        f"| setting | paper | {link(PAPER_RECIPE)} | | {link(SMALL_RECIPE)} |",
        "|---|--:|--:|---|--:|",
    ]
    for words, paper, ours, smaller in rows:
        said = "not run yet" if ours is None else "the same" if ours == paper else "other"
        cells = (_plain(paper), _plain(ours), said, _plain(smaller))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return [*lines, ""]


def _ran(found: Results) -> list[tuple[str, Any, Any, Any]]:
    """What runs themselves say, of the paper's size and small ones."""
    recipes = [[run["recipe"] for run in _runs(found, study)] for study in STUDIES]
    started = [
        _one({"pretrained" if one["model"]["pretrained"] else "random" for one in of})
        for of in recipes
    ]
    marked = [
        _one({"yes" if one["task"]["start_marker"] else "no" for one in of}) for of in recipes
    ]
    steps = [
        [row["step"] or 0 for name in found.present((study,)) for row in found.study(name)]
        for study in STUDIES
    ]
    steps[0] += [steps_of(found, name) or 0 for kind in LARGE for name in found.folders(kind)]
    return [
        ("initial weights, as runs had", "of the Pile, except where noted", *started),
        ("a marker before the first action, as runs had", "not said", *marked),
        ("steps of the longest run", PLANNED, *(max(of, default=None) for of in steps)),
    ]


def _classified(found: Results) -> list[str | None]:
    """Of runs of the paper's size, and of small ones: behind which block, of how many."""
    told = []
    for study in ("auxiliary", "small-regimes"):
        read = set()
        for run in _runs(found, study):
            stages = run["recipe"].get("stage") or ()
            layers = run["recipe"]["model"]["layers"] or PUBLISHED
            for one in (one for one in stages if one.get("auxiliary")):
                read.add(f"{one.get('auxiliary_layer') or default_layer(layers)} of {layers}")
        told.append(_one(read))
    return told


def _runs(found: Results, study: str) -> list[dict[str, Any]]:
    files = sorted((found.root / "results" / study / "runs").glob("*.json"))
    return [found.json(file.relative_to(found.root).as_posix()) for file in files]


def _one(values: set[Any]) -> Any:
    """What all have; None without any, or if they differ."""
    return values.pop() if len(values) == 1 else None


def _sequences(found: Results, study: str) -> int | None:
    """How many sequences, all different, a study's runs drew; None without runs, or if some drew
    other numbers than others."""
    return _one(
        {
            round(run["training_sequences"] / (1 - run["recipe"]["task"]["analysis_fraction"]))
            for run in _runs(found, study)
        }
    )


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


Reading = Callable[[dict[str, Any]], str]
"""From what a lens says of its result, beside the table."""


def _window(kept: dict[str, Any]) -> str:
    sizes = {grid["window"] for grid in kept["spec"]["grids"] if grid["where"] == "window"}
    return ", ".join(map(str, sorted(sizes)))


def _probed(kept: dict[str, Any]) -> str:
    lengths = kept["summary"]["lengths"]
    return f"{min(lengths)} to {max(lengths)}"


def _scored(kept: dict[str, Any]) -> str:
    return f"{kept['spec']['first']} to {kept['spec']['last']}"


ANALYSIS: tuple[tuple[str, str, str, Reading, str, str], ...] = (
    ("actions deleted at a time (App. B)", "1", "patching", _window, A, P),
    ("lengths with probes of their own (App. C.2)", "5 to 100", "probing", _probed, A, P),
    ("lengths of parity-head scores, S3 (App. F)", "5 to 80", "attention", _scored, A, P),
    ("lengths of parity-head scores, S5 (App. F)", "5 to 50", "attention", _scored, S5_A, S5_P),
)
"""In words, the paper's, the lens and how to read it, and the models it is of."""


def analysis_table(found: Results) -> list[str]:
    """The lines of the table."""
    lines = [
        "## What models were looked at with (App. B, C and F)",
        "",
        "A model that still learns is looked at up to the length that it knows.",
        "",
        "| setting | paper | AA model | PAA model |",
        "|---|--:|---|---|",
    ]
    for words, paper, lens, read, *models in ANALYSIS:
        cells = [_analysed(found, model, lens, read) for model in models]
        lines.append(f"| {words} | {paper} | {' | '.join(cells)} |")
    return [*lines, ""]


def _analysed(found: Results, model: str, lens: str, read: Reading) -> str:
    with contextlib.suppress(Missing):
        name, said = first(found, model, lambda of: read(found.json(lens_file(of, lens, "json"))))
        return f"**{said}**, {about(found, name, shorter=False) or name}"
    return "not looked at yet"
