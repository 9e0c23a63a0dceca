"""One definition per term, from glossary.toml: the report, the help and the documentation use it.

Needs no torch.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from statetrace.config.checks import known


@dataclass(frozen=True)
class Term:
    """A term of the glossary.

    Attributes:
        part: the title of its part of the glossary.
        markdown: its definition, where *asterisks* mark other terms.
        more: further sentences, or "".
    """

    name: str
    part: str
    markdown: str
    more: str = ""

    @property
    def definition(self) -> str:
        """One sentence without its full stop, as plain text."""
        return plain(self.markdown)


@cache
def terms() -> dict[str, Term]:
    """Every term by name, in the order of the file."""
    parts: dict[str, dict[str, Any]] = tomllib.loads(
        files("statetrace").joinpath("glossary.toml").read_text(encoding="utf-8")
    )
    titles = parts.pop("parts")
    return {
        name: Term(name, titles[part], entry["is"], entry.get("more", ""))
        for part, entries in parts.items()
        for name, entry in entries.items()
    }


def define(name: str) -> str:
    """The definition of a term as plain text; "" for a name that is not in the glossary, such as
    that of a registered algorithm."""
    return terms()[name].definition if name in terms() else ""


def find(name: str) -> Term:
    """The term, in upper or lower case, singular or plural."""
    names = {term.lower(): term for term in terms()}
    wanted = " ".join(name.lower().split())
    wanted = wanted if wanted in names else wanted.removesuffix("s")
    known(names.get(wanted, wanted), terms(), "term")
    return terms()[names[wanted]]


def plain(text: str) -> str:
    """Text without the asterisks."""
    return re.sub(r"\*([^*]+)\*", r"\1", text)
