"""What the paper trains with beside what recipes and runs say: a table of REPRODUCTION.md."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

from statetrace.reproduction.claim import settings
from statetrace.reproduction.results import Results
from statetrace.tasks.topics import CONCENTRATION, MIXTURE, TOPICS

PAPER_RECIPE, SMALL_RECIPE = "recipes/paper/s3-gpt2.toml", "recipes/studies/small.toml"
SETTINGS = (
    ("actions per sequence", "length", 100),
    ("held out for analysis", "analysis_fraction", 0.1),
    ("batch", "batch", 128),
    ("learning rate", "learning_rate", 5e-5),
    ("steps (20 epochs of 900,000)", "steps", 20 * 900_000 // 128),
)
"""What the paper trains with (section 4.1): in words, the recipe's key, the paper's number."""
SEQUENCES = 1_000_000
LENGTHS, LENGTHS_RECIPE = "10 → 25 → 50 → 100", "recipes/regimes/length.toml"


def trained_with(found: Results, link: Callable[[str], str]) -> list[str]:
    """The lines of the table."""
    at_size, small = (settings(found.root, recipe) for recipe in (PAPER_RECIPE, SMALL_RECIPE))
    grown = tomllib.loads((found.root / LENGTHS_RECIPE).read_text())["stage"]
    lengths = " → ".join(str(stage["length"]) for stage in grown)
    drawn = "different sequences, as runs of such models had"
    rows: list[tuple[str, Any, Any, Any]] = [  # in words, the paper's, ours, of small models
        (drawn, SEQUENCES, _sequences(found, "scratch"), _sequences(found, "small"))
    ]
    rows += [(words, paper, at_size[key], small.get(key)) for words, key, paper in SETTINGS]
    rows += [
        (words, paper, ours, ours)
        for words, ours, paper in (
            ("topics of the topic model", TOPICS, 4),
            ("Dirichlet parameter of topics", MIXTURE, 0.3),
            ("Dirichlet parameter of words", CONCENTRATION, 0.1),
        )
    ]
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


def _sequences(found: Results, study: str) -> int | None:
    """How many sequences, all different, a study's runs drew; None without runs, or if some drew
    other numbers than others."""
    files = sorted((found.root / "results" / study / "runs").glob("*.json"))
    drawn = set()
    for file in files:
        run = found.json(file.relative_to(found.root).as_posix())
        trained = 1 - run["recipe"]["task"]["analysis_fraction"]
        drawn.add(round(run["training_sequences"] / trained))
    return drawn.pop() if len(drawn) == 1 else None


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
