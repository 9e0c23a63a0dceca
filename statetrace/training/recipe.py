"""A recipe: every setting of a run, from a TOML file, from the command line, or from both."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.training.settings import (
    CheckpointSettings,
    EvaluationSettings,
    ModelSettings,
    TaskSettings,
    TrainingSettings,
    need,
)


@dataclass(frozen=True)
class Recipe:
    """All settings of one run; `recipe.task.length`, `recipe.training.steps`, ..."""

    task: TaskSettings = field(default_factory=TaskSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)

    @staticmethod
    def read(path: Path) -> Recipe:
        """From a TOML file whose tables are the sections."""
        try:
            tables = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise StatetraceError(f"there is no recipe '{path}'") from None
        except (OSError, UnicodeDecodeError) as error:
            raise StatetraceError(f"recipe '{path}' cannot be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise StatetraceError(f"recipe '{path}' is not valid TOML: {error}") from None
        return Recipe.of(tables, f"recipe '{path}'")

    @staticmethod
    def of(tables: dict[str, Any], source: str = "recipe") -> Recipe:
        """From nested dictionaries, as TOML and `run.json` hold them."""
        sections = {}
        for name, table in tables.items():
            known(name, SECTIONS, "section", source)
            need(
                isinstance(table, dict),
                f"'{name} = {table!r}' in {source} stands outside of a table; "
                f"the tables are {', '.join(f'[{s}]' for s in SECTIONS)}",
            )
            kind = SECTIONS[name]
            fields = {f.name: f for f in dataclasses.fields(kind)}
            for key in table:
                known(key, fields, "setting", f"[{name}] of {source}")
            types_ = typing.get_type_hints(kind)
            values = {k: coerce(k, v, types_[k]) for k, v in table.items() if v is not None}
            sections[name] = kind(**values)
        return Recipe(**sections)

    def override(self, flat: dict[str, Any]) -> Recipe:
        """The same recipe with some settings replaced, by option name (`{"steps": 2000}`)."""
        changes: dict[str, dict[str, Any]] = {}
        for option, value in flat.items():
            section, name = OPTIONS[option]
            kind = typing.get_type_hints(SECTIONS[section])[name]
            changes.setdefault(section, {})[name] = coerce(option, value, kind)
        sections = {
            section: dataclasses.replace(getattr(self, section), **values)
            for section, values in changes.items()
        }
        return dataclasses.replace(self, **sections)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """As a recipe file that `read` accepts; settings left open appear as comments."""
        lines: list[str] = []
        for section, values in self.to_dict().items():
            lines.append(f"[{section}]")
            for key, value in values.items():
                lines.append(f"# {key}: open" if value is None else f"{key} = {_toml(value)}")
            lines.append("")
        return "\n".join(lines)

    def differences(self, other: Recipe) -> list[str]:
        """Settings in which two recipes differ, each as 'name mine, not theirs'."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [
            f"{key} {mine[section][key]!r}, not {theirs[section][key]!r}"
            for section in mine
            for key in mine[section]
            if mine[section][key] != theirs[section][key]
        ]


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
"""Option name -> (section, field). Names are unique, so the command line has no sections."""


def known(name: str, accepted: typing.Iterable[str], what: str, where: str) -> None:
    names = list(accepted)
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names)}"
    raise StatetraceError(f"unknown {what} '{name}' in {where}; {hint}")


def coerce(name: str, value: Any, kind: Any) -> Any:
    """Check a value against a field's type; integers may stand for floats, nothing else bends."""
    accepted = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in accepted:
        return None
    for one in accepted:
        if type(value) is one:
            return value
        if one is float and type(value) is int:
            return float(value)
    wanted = " or ".join(one.__name__ for one in accepted if one is not type(None))
    raise StatetraceError(f"{name} must be {_article(wanted)}, not {value!r}")


def _article(kind: str) -> str:
    words = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
    return words.get(kind, kind)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
