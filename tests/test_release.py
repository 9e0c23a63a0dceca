"""Facts that are written in several top-level files agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import statetrace

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_version_is_cited_and_described():
    assert f"\nversion: {statetrace.__version__}\n" in read("CITATION.cff")
    assert f"\n## {statetrace.__version__}" in read("CHANGELOG.md")


def test_pre_commit_and_make_use_the_same_ruff():
    pinned = re.findall(r"ruff==[\d.]+", read("constraints.txt"))
    assert set(re.findall(r"ruff==[\d.]+", read(".pre-commit-config.yaml"))) == set(pinned)


def test_messages_and_pages_name_extras_that_exist():
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    files = [
        *(ROOT / "statetrace").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]
    named = {name for f in files for name in re.findall(r"statetrace\[(\w+)\]", f.read_text())}
    assert {"explorer", "ray", "tensorboard", "wandb"} <= named <= set(extras)
