"""A recipe: all settings of a run, from a TOML file, the command line, or both."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.config.checks import known, need
from statetrace.config.settings import (
    CheckpointSettings,
    EvaluationSettings,
    ModelSettings,
    TaskSettings,
    TrainingSettings,
)
from statetrace.config.stages import Stage, StageSettings, resolve
from statetrace.config.toml_io import read_tables
from statetrace.errors import StatetraceError

STAGE = "stage"


@dataclass(frozen=True)
class Recipe:
    """All settings of one run; `recipe.task.length`, `recipe.training.steps`, ...

    `stage` holds the [[stage]] tables, () if there are none; `stages` resolves them.
    """

    task: TaskSettings = field(default_factory=TaskSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    stage: tuple[StageSettings, ...] = ()

    def __post_init__(self) -> None:
        _ = self.stages  # checks the chain

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in order; the state task alone in a recipe without stages."""
        return resolve(self.stage, self.task, self.training, self.evaluation, self.checkpoint)

    @staticmethod
    def read(path: Path) -> Recipe:
        """From a TOML file, which may extend another."""
        tables = read_tables(path, "recipe")
        need(
            not is_study(tables),
            f"'{path}' is a study, not a recipe; use `statetrace study {path} --out STUDY`",
        )
        return Recipe.of(tables, f"recipe '{path}'")

    @staticmethod
    def of(tables: dict[str, Any], source: str = "recipe") -> Recipe:
        """From nested dictionaries, as in TOML and `run.json`."""
        sections: dict[str, Any] = {}
        for name, table in tables.items():
            if name == STAGE:
                sections[STAGE] = _stages(table, source)
                continue
            known(name, SECTIONS, "section", source)
            need(
                isinstance(table, dict),
                f"'{name} = {table!r}' in {source} is outside of a table; "
                f"use {', '.join(f'[{s}]' for s in SECTIONS)} or [[{STAGE}]]",
            )
            sections[name] = _table(SECTIONS[name], table, f"[{name}] of {source}")
        return Recipe(**sections)

    def override(self, flat: dict[str, Any]) -> Recipe:
        """The recipe with settings replaced in every stage, by option name (`{"steps": 2000}`)."""
        changes: dict[str, dict[str, Any]] = {}
        for option, value in flat.items():
            known(option, OPTIONS, "setting")
            section, name = OPTIONS[option]
            kind = typing.get_type_hints(SECTIONS[section])[name]
            changes.setdefault(section, {})[name] = coerce(option, value, kind)
        sections: dict[str, Any] = {
            section: dataclasses.replace(getattr(self, section), **values)
            for section, values in changes.items()
        }
        replaced = {name for values in changes.values() for name in values}
        stage = tuple(settings.without(replaced) for settings in self.stage)
        return dataclasses.replace(self, **sections, stage=stage)

    def to_dict(self) -> dict[str, Any]:
        """As in TOML and JSON; a stage lists only its own settings."""
        tables = {name: dataclasses.asdict(getattr(self, name)) for name in SECTIONS}
        stages = [settings.explicit() for settings in self.stage]
        return tables | ({STAGE: stages} if stages else {})

    def to_toml(self) -> str:
        """As a recipe file that `read` accepts; settings without a value appear as comments."""
        lines: list[str] = []
        tables = [(f"[{name}]", dataclasses.asdict(getattr(self, name))) for name in SECTIONS]
        tables += [(f"[[{STAGE}]]", settings.explicit()) for settings in self.stage]
        for head, values in tables:
            lines.append(head)
            for key, value in values.items():
                lines.append(f"# {key}: not set" if value is None else f"{key} = {_toml(value)}")
            lines.append("")
        return "\n".join(lines)

    def differences(self, other: Recipe) -> list[str]:
        """Settings in which two recipes differ, each as 'name mine, not theirs'."""
        mine, theirs = self.to_dict(), other.to_dict()
        differences = [
            f"{key} {mine[section][key]!r}, not {theirs[section][key]!r}"
            for section in SECTIONS
            for key in mine[section]
            if mine[section][key] != theirs[section][key]
        ]
        if len(self.stage) != len(other.stage):
            return [*differences, f"{len(self.stage)} stages, not {len(other.stage)}"]
        for number, pair in enumerate(zip(self.stage, other.stage, strict=True), start=1):
            for name in (f.name for f in dataclasses.fields(StageSettings)):
                a, b = (getattr(settings, name) for settings in pair)
                if a != b:
                    differences.append(f"{name} {a!r} in stage {number}, not {b!r}")
        return differences


SECTIONS: dict[str, type] = {
    "task": TaskSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
    "evaluation": EvaluationSettings,
    "checkpoint": CheckpointSettings,
}

OPTIONS: dict[str, tuple[str, str]] = {
    f.metadata["flag"] or f.name: (section, f.name)
    for section, kind in SECTIONS.items()
    for f in dataclasses.fields(kind)
}
"""Option name -> (section, field). Names are unique, so the command line needs no sections."""


def is_study(tables: dict[str, Any]) -> bool:
    """Whether these are the tables of a study rather than of a recipe."""
    return bool(tables.keys() & {"base", "grid", "seeds"})


def _stages(tables: Any, source: str) -> tuple[StageSettings, ...]:
    need(
        isinstance(tables, list) and all(isinstance(table, dict) for table in tables),
        f"'{STAGE}' in {source} is not a list of tables; write each stage under [[{STAGE}]]",
    )
    return tuple(
        _table(StageSettings, table, f"[[{STAGE}]] number {number} of {source}")
        for number, table in enumerate(tables, start=1)
    )


def _table(kind: Any, table: dict[str, Any], where: str) -> Any:
    """One table of a recipe as its dataclass."""
    for key in table:
        known(key, [f.name for f in dataclasses.fields(kind)], "setting", where)
    types_ = typing.get_type_hints(kind)
    values = {k: coerce(k, v, types_[k]) for k, v in table.items() if v is not None}
    return kind(**values)


def coerce(name: str, value: Any, kind: Any) -> Any:
    """Check a value against a field's type; an integer is accepted as a float."""
    accepted = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in accepted:
        return None
    for type_ in accepted:
        if type(value) is type_:
            return value
        if type_ is float and type(value) is int:
            return float(value)
    expected = " or ".join(TYPE_NAMES[t] for t in accepted if t is not type(None))
    raise StatetraceError(f"{name} must be {expected}, not {value!r}")


TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
