"""Code and commands of the documentation, as a reader would copy them.

A fenced block after `<!-- costly: REASON -->` is executed with smaller settings; one after
`<!-- recipe -->` is a recipe file of the page. Everything else is executed as it is.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from typer.main import get_command

from statetrace.cli import app
from website.stage import ROOT, pages

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[a-z]+)(?:: (?P<reason>[^\n]+))? -->\n)?"
    r"```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
COMMANDS = get_command(app)
INLINE = re.compile(r"`(statetrace [^`]+)`")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    mark: str | None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each line, comments removed and continued lines joined."""
        joined = self.text.replace("\\\n", " ")
        return [w for line in joined.splitlines() if (w := shlex.split(line, comments=True))]


def markdown() -> list[Path]:
    """Every page of the site that is written by hand, and the README."""
    staged = [file for file in pages() if file.suffix == ".md"]
    return [ROOT / "README.md", *staged]


def blocks(page: Path) -> list[Block]:
    return [Block(m["language"], m["text"], m["mark"]) for m in FENCE.finditer(page.read_text())]


def inline(page: Path) -> list[list[str]]:
    """Commands in running text and in tables."""
    text = FENCE.sub("", page.read_text())
    return [shlex.split(" ".join(command.split())) for command in INLINE.findall(text)]


def resolve(words: list[str]):
    """(command, its arguments) for words that begin with `statetrace`; fails for a command or an
    option that does not exist."""
    command, rest = COMMANDS, words[1:]
    while rest and hasattr(command, "commands"):
        name = rest[0]
        if name not in command.commands and "run" in command.commands:
            name, rest = "run", ["run", *rest]  # `study FILE` is short for `study run FILE`
        if name.startswith("-"):
            break
        assert name in command.commands, f"there is no command {' '.join(words)!r}"
        command, rest = command.commands[name], rest[1:]
    known = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} | {
        "-h",
        "--help",
    }
    for word in rest:
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            flag = word.partition("=")[0]
            assert flag in known, f"{' '.join(words)!r} has an option {flag} that does not exist"
    return command, rest
