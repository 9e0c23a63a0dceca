"""A study file: a base recipe, factors with their levels, and the cells they span.

    base = "../paper/s3-gpt2.toml"     # a recipe, relative to this file
    seeds = 12                         # data orders 0 to 11 (the default), or a list of them

    [settings]                         # options for every cell, as on the command line
    steps = 20000

    [grid]
    model = ["gpt2", "pythia-160m"]    # values of a setting ...

    [grid.regime.scratch]              # ... or named levels, each a table of settings

    [grid.regime.topic]
    stages = "../regimes/topic.toml"   # a recipe with [[stage]] tables, or a list of such tables

    [[exclude]]                        # combinations that are left out
    model = "gpt2"
    regime = "topic"

A study with `extends = "other.toml"` inherits the tables that it does not define itself. Where
levels mean different things for different models, write several [[grid]] tables with the same
factors; the study has the cells of all of them.

Needs no torch.
Caveat: settings apply to every stage of the base recipe, but not to the stages of a level.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.config.bundled import locate
from statetrace.config.checks import known, need, one_of
from statetrace.config.recipe import OPTIONS, SECTIONS, STAGE, Recipe
from statetrace.config.toml_io import Tables, read_tables
from statetrace.errors import StatetraceError

DATA_ORDERS = 12
"""As in the paper (section 5.2)."""

EARLY = 10_000
"""Steps after which the paper reads the mechanism off the generalization curves (section 5.1)."""

MOST_CELLS = 100_000

SEED = "seed"
STAGES = "stages"
VERDICTS = ("full", "standard", "quick")
WORK = ("train", "nothing")


@dataclass(frozen=True)
class StudySettings:
    """Settings for all cells of a study.

    Attributes:
        early: steps of the last stage before the early evaluation.
        train_on: whether training continues after it; if not, the early verdict is final.
        verdict: `quick` (cutoffs only), `standard` (the two lenses that decide a verdict) or
            `full` (also the lenses that are compared with the algorithms as a check).
        together: seeds of one model that may be trained as one batch; 1 trains each alone, with
            bit-exact numbers (see stacked.py).
        retries: how often a cell that fails without progress is tried again.
        work: `train`, or `nothing` to measure the overhead of studies.
    """

    early: int = EARLY
    train_on: bool = True
    verdict: str = "full"
    together: int = 1
    retries: int = 2
    work: str = "train"

    def __post_init__(self) -> None:
        for name, least in (("early", 1), ("together", 1), ("retries", 0)):
            value = getattr(self, name)
            whole = type(value) is int and value >= least
            need(whole, f"{name} {value!r} must be a whole number, {least} or more")
        need(type(self.train_on) is bool, f"train_on {self.train_on!r} must be true or false")
        one_of("verdict", self.verdict, VERDICTS)
        one_of("work", self.work, WORK)


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        name: unique in the study, and fit for a folder.
        levels: factor -> level, the seed last.
        recipe: all its settings, as `Recipe.to_dict` gives them.
    """

    name: str
    levels: Mapping[str, str | int]
    recipe: Mapping[str, Any]


@dataclass(frozen=True)
class StudyPlan:
    """The cells of a study and their common settings, which study.json calls rules."""

    cells: tuple[Cell, ...]
    settings: StudySettings = field(default_factory=StudySettings)

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(self.cells[0].levels)

    def to_dict(self) -> dict[str, Any]:
        tables = dataclasses.asdict(self)
        return {"cells": tables["cells"], "rules": tables["settings"]}

    @staticmethod
    def of(tables: Mapping[str, Any]) -> StudyPlan:
        """The inverse of `to_dict`; refuses invalid tables, such as a cell whose name leads out of
        the folder."""
        cells = tuple(Cell(**cell) for cell in tables["cells"])
        for cell in cells:
            name, steps = cell.name, cell.recipe["training"]["steps"]
            stages = [steps, *(s.get("steps", steps) for s in cell.recipe.get("stage") or ())]
            well_formed = isinstance(cell.levels, dict) and {type(n) for n in stages} == {int}
            if not (isinstance(name, str) and Path(name).name == name and well_formed):
                raise ValueError(f"cell {name!r:.80} is not valid")
        if not cells:
            raise ValueError("it has no cells")
        return StudyPlan(cells, StudySettings(**tables["rules"]))


Level = tuple[dict[str, Any], list[dict[str, Any]] | None]
"""What a level changes: settings by option name, and stages (None keeps those of the base)."""


def read_study(path: Path) -> StudyPlan:
    """The plan of a study file; refuses an invalid one before any work."""
    source = f"study '{path}'"
    tables = read_tables(path, "study", _settled)
    need(
        not tables.keys() & {*SECTIONS, STAGE},
        f"'{path}' is the recipe of one run; use `statetrace train {path} --out RUN`",
    )
    common = sorted(f.name for f in dataclasses.fields(StudySettings))
    for name in tables:
        known(name, ["base", "seeds", "settings", "grid", "exclude", *common], "key", source)
    base = _base(tables.get("base"), path)
    base = base.override(_settings(tables.get("settings", {}), f"[settings] of {source}"))
    grids = _grids(tables.get("grid", {}), path)
    excluded = _excluded(tables.get("exclude", []), grids, source)
    seeds = _seeds(tables.get("seeds", DATA_ORDERS), source)
    count = sum(math.prod(map(len, factors.values())) for factors in grids) * len(seeds)
    need(count <= MOST_CELLS, f"{source} has {count:,} cells; at most {MOST_CELLS:,} work")
    cells: list[Cell] = []
    for factors in grids:
        for combination in itertools.product(*(levels.items() for levels in factors.values())):
            levels = dict(zip(factors, (name for name, _ in combination), strict=True))
            if any(exclusion.items() <= levels.items() for exclusion in excluded):
                continue
            recipe = _combine(base, [change for _, change in combination], levels, source)
            cells += [_cell(levels, recipe, seed) for seed in seeds]
    need(bool(cells), f"{source} excludes every combination; remove an [[exclude]]")
    _distinct(cells, source)
    settings = {name: value for name, value in tables.items() if name in common}
    return StudyPlan(tuple(cells), StudySettings(**settings))


def _settled(tables: Tables, path: Path) -> Tables:
    """With paths of recipes relative to this file resolved, as another study may extend it."""
    if isinstance(tables.get("base"), str):
        tables["base"] = str(locate(tables["base"], path.parent))
    grid = tables.get("grid", {})
    for factors in grid if isinstance(grid, list) else [grid]:
        for levels in factors.values() if isinstance(factors, dict) else ():
            for level in levels.values() if isinstance(levels, dict) else ():
                if isinstance(level, dict) and isinstance(level.get(STAGES), str):
                    level[STAGES] = str(locate(level[STAGES], path.parent))
    return tables


def _base(base: Any, path: Path) -> Recipe:
    if base is None:
        return Recipe()
    if isinstance(base, dict):
        return Recipe.of(base, f"[base] of study '{path}'")
    need(isinstance(base, str), f"base {base!r} in study '{path}' is not a path to a recipe")
    return Recipe.read(Path(base))


def _settings(table: Any, where: str) -> dict[str, Any]:
    need(isinstance(table, dict), f"{where} is {table!r}; write a table of settings")
    for name in table:
        known(name, OPTIONS, "setting", where)
    need(SEED not in table, f"seed {table.get(SEED)!r} in {where}: list seeds as `seeds = [...]`")
    return dict(table)


Factors = dict[str, dict[str, Level]]


def _grids(grid: Any, path: Path) -> list[Factors]:
    tables = grid if isinstance(grid, list) else [grid]
    grids = [_factors(table, path) for table in tables]
    for factors in grids:
        need(
            list(factors) == list(grids[0]),
            f"the [[grid]] tables of study '{path}' have different factors ({', '.join(factors)}, "
            f"not {', '.join(grids[0])}); give all of them the same, in the same order",
        )
    return grids


def _factors(grid: Any, path: Path) -> Factors:
    where = f"[grid] of study '{path}'"
    need(isinstance(grid, dict), f"grid is {grid!r} in study '{path}'; write a table [grid]")
    need(SEED not in grid, f"seed in {where} is not a factor; list seeds as `seeds = [...]`")
    factors: Factors = {}
    for factor, levels in grid.items():
        need(bool(levels), f"factor '{factor}' in {where} has no levels; give at least one")
        if isinstance(levels, list):
            known(factor, OPTIONS, "setting", where)
            factors[factor] = {str(value): ({factor: value}, None) for value in levels}
            continue
        need(
            isinstance(levels, dict),
            f"factor '{factor}' in {where} is {levels!r}; give a list of values, or a table per "
            f"level as in [grid.{factor}.NAME]",
        )
        factors[factor] = {
            name: _level(table, f"[grid.{factor}.{name}] of study '{path}'", path)
            for name, table in levels.items()
        }
    return factors


def _level(table: Any, where: str, path: Path) -> Level:
    need(isinstance(table, dict), f"{where} is {table!r}; write a table of settings")
    stages = table.get(STAGES)
    settings = _settings({k: v for k, v in table.items() if k != STAGES}, where)
    if isinstance(stages, str):
        return settings, Recipe.read(Path(stages)).to_dict().get("stage", [])
    if stages is not None:
        Recipe.of({"stage": stages}, where)  # refuses what is not a list of stages
    return settings, stages


def _excluded(tables: Any, grids: Sequence[Factors], source: str) -> list[dict[str, str]]:
    factors = {name: {k for grid in grids for k in grid[name]} for name in grids[0]}
    listed = isinstance(tables, list) and all(isinstance(t, dict) and t for t in tables)
    need(listed, f"exclude in {source} is {tables!r}; write each combination under [[exclude]]")
    for table in tables:
        for factor, level in table.items():
            known(factor, factors, "factor", f"[[exclude]] of {source}")
            known(str(level), factors[factor], f"level of {factor}", f"[[exclude]] of {source}")
    return [{factor: str(level) for factor, level in table.items()} for table in tables]


def _seeds(seeds: Any, source: str) -> Sequence[int]:
    if type(seeds) is int and 1 <= seeds <= MOST_CELLS:
        return range(seeds)
    whole = isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)
    need(
        bool(whole) and len(set(seeds)) == len(seeds),
        f"seeds {seeds!r} in {source} are not valid; give their number, at most {MOST_CELLS:,}, or "
        "a list without repeats",
    )
    return list(seeds)


def _combine(
    base: Recipe, changes: Sequence[Level], levels: Mapping[str, str], source: str
) -> Recipe:
    where = ", ".join(f"{factor} {level}" for factor, level in levels.items())
    try:
        recipe = base
        for settings, _ in changes:
            recipe = recipe.override(settings)
        chains = [stages for _, stages in changes if stages is not None]
        need(len(chains) <= 1, "two factors set stages; only one may")
        if chains:
            tables = {k: v for k, v in recipe.to_dict().items() if k != "stage"}
            recipe = Recipe.of(tables | {"stage": chains[0]})
        last = recipe.stages[-1].settings.objective
        need(last == "state", f"the last stage is '{last}'; in a study it must be 'state'")
        # a thread count that depends on the machine could change the last bits of sums
        return recipe if recipe.training.threads else recipe.override({"threads": 1})
    except StatetraceError as error:
        raise StatetraceError(f"{source}, {where or 'base'}: {error}") from None


def _cell(levels: Mapping[str, str], recipe: Recipe, seed: int) -> Cell:
    parts = [re.sub(r"[^\w.+-]+", "-", level) for level in levels.values()]
    name = "_".join([*parts, f"{SEED}-{seed}"])
    return Cell(name, {**levels, SEED: seed}, recipe.override({SEED: seed}).to_dict())


def _distinct(cells: Sequence[Cell], source: str) -> None:
    names: set[str] = set()
    for cell in cells:
        name = cell.name.casefold()  # some file systems ignore case
        need(
            name not in names,
            f"{source} has two cells called '{cell.name}'; name its levels differently",
        )
        names.add(name)
