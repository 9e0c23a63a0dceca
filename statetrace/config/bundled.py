"""The recipes and studies of the package, by name: `demo`, `paper/s3-gpt2`, `studies/toy`.

A name is accepted wherever a recipe or study file is; a file of that name takes precedence. In a
checkout the folder `recipes/` is a link to them, so `recipes/demo.toml` is the same recipe.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

RECIPES = Path(__file__).parents[1] / "recipes"


def bundled_names() -> list[str]:
    """All names, recipes and studies alike; figure 10 comes after figure 9."""
    files = [file.relative_to(RECIPES) for file in RECIPES.rglob("*.toml")]
    names = [file.with_suffix("").as_posix() for file in files]
    return sorted(names, key=lambda name: re.sub(r"\d+", lambda n: n[0].zfill(3), name))


def locate(name: str | Path, folder: Path = Path()) -> Path:
    """The file `name` in `folder` or, if there is none, the bundled one of that name."""
    file = folder / name
    short = _short(name)
    if not file.is_file() and short in bundled_names():
        return RECIPES / f"{short}.toml"
    return file


def suggestion(name: str | Path) -> str:
    """How to go on after an unknown name."""
    close = difflib.get_close_matches(_short(name), bundled_names(), n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    return f"{guess}`statetrace recipes` lists the bundled recipes and studies"


def _short(name: str | Path) -> str:
    return Path(name).as_posix().removeprefix("recipes/").removesuffix(".toml")
