"""Build REPRODUCTION.md and its pictures from results/.

    python -m reproduction [--root FOLDER] [--check]

Cost: a second, and half a second for each picture whose numbers have changed. Needs no torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from reproduction.figures.build import draw_all, drawn_last, fingerprints
from reproduction.page import page
from reproduction.results import Results
from statetrace.errors import StatetraceError

PAGE = "REPRODUCTION.md"
OLD = f"{PAGE} or a picture is not what results/ say: run make reproduce-report"


def build(root: Path) -> Path:
    """Write the page and its pictures; the page's path."""
    found = Results(root)
    text = page(found)
    draw_all(found)
    file = root / PAGE
    file.write_text(text)
    return file


def up_to_date(root: Path) -> bool:
    """Whether the page and its pictures are there and say what results/ say."""
    file, found = root / PAGE, Results(root)
    if not file.is_file() or file.read_text() != page(found):
        return False
    return drawn_last(root) == fingerprints(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build REPRODUCTION.md from results/.")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    given = parser.parse_args()
    try:
        if not given.check:
            build(given.root)
        elif not up_to_date(given.root):
            raise StatetraceError(OLD)
    except StatetraceError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
