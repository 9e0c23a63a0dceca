"""Copies the pages into the folder that the site generator reads, with links that work there.

A link to a file that is not a page of the site is replaced by its text: the site has no copy of the
code. A link to a file that does not exist is an error.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from website.notebooks import to_markdown
from website.reference import fill

ROOT = Path(__file__).parents[1]

OUTSIDE = {
    "REPRODUCTION.md": "account.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "results/README.md": "results.md",
    "statetrace/recipes/paper/README.md": "paper-recipes.md",
    "docs/reproduction/README.md": "reproduction/rules.md",
}
"""Pages that have another name on the site, most of them outside docs/."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
IN_CHECKOUT = re.compile(r"\n?\(In a checkout.*?\)(?=\n\n)", re.DOTALL)
"""A remark for readers of the checkout, which is untrue on the site."""
FENCE = re.compile(r"^(```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, Path]:
    """Every file of the site: path in the checkout -> path in the staged folder."""
    files = [file for file in sorted((ROOT / "docs").rglob("*")) if file.is_file()]
    staged = {file: file.relative_to(ROOT / "docs") for file in files}
    staged |= {ROOT / file: Path(name) for file, name in OUTSIDE.items() if (ROOT / file).exists()}
    return {file: _site_name(path) for file, path in staged.items()}


def _site_name(path: Path) -> Path:
    if path.name == "README.md":
        return path.with_name("index.md")
    return path.with_suffix(".md") if path.suffix == ".ipynb" else path


def stage(folder: Path) -> None:
    """Fill the folder with all pages and pictures."""
    shutil.rmtree(folder, ignore_errors=True)
    site = pages()
    for file, name in site.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.suffix != ".md":
            shutil.copyfile(file, target)
            continue
        text = to_markdown(file, target) if file.suffix == ".ipynb" else file.read_text()
        text = IN_CHECKOUT.sub("", text)
        target.write_text(_rewritten(fill(text), file, site))


def _rewritten(text: str, file: Path, site: dict[Path, Path]) -> str:
    """The page with the site's links; fenced code stays as it is."""

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = Path(os.path.normpath(file.parent / target))
        if path.is_dir():
            path = path / "README.md" if (path / "README.md") in site else path
        if path in site:
            address = os.path.relpath(site[path], site[file].parent)
            return f"{match['image']}[{match['text']}]({address}{'#' * bool(anchor)}{anchor})"
        if not path.exists() and not (path.parent == file.parent and match["image"]):
            raise SystemExit(f"{file.relative_to(ROOT)}: there is no {match['target']}")
        return match["text"] if not match["image"] else match[0]

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
