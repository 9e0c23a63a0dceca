"""A group as a JSON file: a name, and a table or generators.

    {"name": "Q8", "labels": ["1", "i", ...], "table": [[0, 1, ...], ...]}
    {"name": "A4", "generators": ["2143", "2314"]}
    {"name": "Q8", "generators": [[[0, 1], [2, 0]], [[1, 1], [1, 2]]], "modulus": 3}

A table holds element numbers or labels. `notation` and `parity` may be given as well.
"""

import json
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.files import read_json, write_text

KEYS = ("name", "labels", "table", "generators", "modulus", "notation", "parity")


def read(path: Path) -> dict[str, Any]:
    """The settings in a group file, checked for their names only."""
    try:
        content: dict[str, Any] = read_json(path)
    except OSError as error:
        raise StatetraceError(f"the group file '{path}' cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise StatetraceError(f"the group file '{path}' is not valid JSON: {error}") from None
    if ("table" in content) == ("generators" in content):
        raise StatetraceError(
            f"the group file '{path}' should be a JSON object with either a \"table\" or "
            '"generators"'
        )
    for key in content:
        if key not in KEYS:
            raise StatetraceError(
                f"unknown key '{key}' in the group file '{path}'; the keys are {', '.join(KEYS)}"
            )
    return {"name": path.stem, **content}


def write(path: Path, content: dict[str, Any]) -> None:
    """One line per row of the table, so that the file can be read and compared."""
    lines = []
    for key, value in content.items():
        if key == "table":
            rows = ",\n    ".join(json.dumps(row) for row in value)
            lines.append(f'  "table": [\n    {rows}\n  ]')
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
