"""Build REPRODUCTION.md, its pictures, docs/reproduction/claims.csv and results/models.parquet.

    python -m reproduction [--root FOLDER] [--check]

Cost: 10 seconds, and half a second per picture whose numbers changed. Needs no torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.parquet as pq

from reproduction.claim import answer, load_claims
from reproduction.figures import FOLDER, charts, draw_all, drawn_last, fingerprint
from reproduction.model_selection import Selection
from reproduction.models_table import arrow_table, manifest, write_models
from reproduction.page import claims_csv, page
from reproduction.tables import Tables
from statetrace.errors import StatetraceError


def texts(root: Path, selection: Selection) -> dict[str, str]:
    """All generated text files, by path."""
    answers = [answer(claim, selection) for claim in load_claims()]
    return {
        "REPRODUCTION.md": page(answers, selection),
        f"{FOLDER}/claims.csv": claims_csv(answers),
        "results/MANIFEST.sha256": manifest(root),
    }


def build(root: Path) -> None:
    selection = Selection(Tables(root))
    draw_all(root, selection)
    write_models(root, selection.all_rows)
    for path, text in texts(root, selection).items():
        (root / path).write_text(text)


def stale(root: Path) -> list[str]:
    """Generated files that are not what results/ and the claims would give."""
    selection = Selection(Tables(root))
    old = [
        path
        for path, text in texts(root, selection).items()
        if not (root / path).is_file() or (root / path).read_text() != text
    ]
    marks = {name: fingerprint(chart) for name, chart in charts(selection).items()}
    old += [FOLDER] if drawn_last(root) != marks else []
    models = root / "results" / "models.parquet"
    if not models.is_file() or not pq.read_table(models).equals(arrow_table(selection.all_rows)):
        old.append("results/models.parquet")
    return old


def main() -> None:
    parser = argparse.ArgumentParser(description="Build REPRODUCTION.md from results/.")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--check", action="store_true", help="only check that all is up to date")
    arguments = parser.parse_args()
    try:
        if not arguments.check:
            build(arguments.root)
        elif old := stale(arguments.root):
            raise StatetraceError(f"stale: {', '.join(old)}; run make reproduce-report")
    except StatetraceError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
