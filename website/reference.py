"""The generated parts of the reference: a line `<!-- generated: NAME -->` in a page is replaced by
what the code says."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

MARK = re.compile(r"^<!-- generated: (?P<name>[a-z-]+) -->$", re.MULTILINE)


def fill(text: str) -> str:
    """The page with every marked place filled."""
    return MARK.sub(lambda match: "\n".join(GENERATED[match["name"]]()), text)


def commands() -> Iterator[str]:
    """Every command with its arguments and options, as typer knows them."""
    from typer.main import get_command

    from statetrace.cli import app

    yield from _command(get_command(app), "statetrace")


def _command(command: Any, name: str) -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    if name != "statetrace":
        yield from (f"\n## `{name}`\n", inspect.cleandoc(command.help or "") + "\n")
        usage = command.get_usage(context).removeprefix("Usage: ")
        yield f"```text\n{usage}\n```\n"
        panels: dict[str, list[tuple[str, ...]]] = {}
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if record is not None and not parameter.hidden:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                rows = panels.setdefault(parameter.rich_help_panel or default, [])
                rows.append((f"`{record[0]}`", _cell(record[1])))
        for title, rows in panels.items():
            yield from _table((title, ""), rows)
            yield ""
    for child, sub in getattr(command, "commands", {}).items():
        if not sub.hidden:
            yield from _command(sub, f"{name} {child}")


def recipe_keys() -> Iterator[str]:
    """The keys of a recipe, section by section."""
    from statetrace.config.recipe import SECTIONS
    from statetrace.config.stages import StageSettings

    for section, kind in [*SECTIONS.items(), ("[stage]", StageSettings)]:
        yield f"\n## [{section}]\n" if section in SECTIONS else "\n## Stages: [[stage]]\n"
        yield from (_cell(kind.__doc__ or "") + "\n", *_settings(kind), "")


def lens_settings() -> Iterator[str]:
    """The settings of every lens."""
    from statetrace.lenses.registry import BUILTIN

    for name, lens in BUILTIN.items():
        yield from (f"\n## {name}\n", *_settings(lens.spec), "")


def _settings(kind: type) -> Iterator[str]:
    rows = (
        (f"`{field.name}`", _default(field.default), _cell(field.metadata["help"]))
        for field in dataclasses.fields(kind)
    )
    yield from _table(("key", "default", "meaning"), rows)


def _default(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(f"`{getattr(part, 'name', part)}`" for part in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    """One line that a Markdown table accepts."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def glossary() -> Iterator[str]:
    """Every term with its definition; terms in asterisks become links."""
    from statetrace.glossary import terms

    by_part = itertools.groupby(terms().values(), key=lambda term: term.part)
    for part, entries in by_part:
        yield f"\n## {part}\n"
        for term in entries:
            definition = re.sub(r"\*([^*]+)\*", _term_link, term.markdown)
            more = re.sub(r"\*([^*]+)\*", _term_link, term.more)
            yield f'<a id="{_anchor(term.name)}"></a>**{term.name}**: {definition}. {more}\n'


def _term_link(match: re.Match[str]) -> str:
    from statetrace.glossary import find

    return f"[{match[1]}](#{_anchor(find(match[1]).name)})"


def _anchor(name: str) -> str:
    return "term-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


GENERATED = {
    "glossary": glossary,
    "commands": commands,
    "recipe-keys": recipe_keys,
    "lens-settings": lens_settings,
}
