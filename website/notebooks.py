"""Notebooks: executed in a real kernel, stored with small outputs, shown as Markdown.

python -m website.notebooks docs/tutorials/*.ipynb     execute, and write outputs into the files
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import nbformat

LARGEST = 300_000
"""Bytes of a notebook."""
SHOWN = ("image/png", "text/html", "text/plain")
"""Kinds of output that code hosts and the site can show, best first; one is kept."""


def to_markdown(file: Path, target: Path) -> str:
    """A notebook as a page; its pictures are written beside the page."""
    parts = []
    for number, cell in enumerate(nbformat.read(file, as_version=4).cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = target.with_name(f"{target.stem}-{number}-{place}.png")
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![]({picture.name})")
            elif "text/html" in data:
                lines = data["text/html"].splitlines()
                html = "".join(line.strip() for line in lines)
                parts.append(f'<div class="table">{html}</div>')
            else:
                parts.append(f"```{{.text .output}}\n{data['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def fingerprint(notebook: Any) -> str:
    """Of the code: outputs of other code are stale."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def execute(file: Path) -> None:
    """Run all cells in a kernel of their own and store the outputs in the file, without the
    progress bars that libraries write to stderr."""
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            shown = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = [_small(output) for output in shown]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "executed": fingerprint(notebook),
    }
    nbformat.validate(notebook)
    nbformat.write(notebook, file)
    if (size := file.stat().st_size) > LARGEST:
        raise SystemExit(f"{file} has {size:,} bytes; at most {LARGEST:,} are allowed")


def _small(output: Any) -> Any:
    """An output with the best kind that is shown everywhere."""
    if "data" in output:
        kind = next(kind for kind in SHOWN if kind in output.data)
        value = output.data[kind]
        output.data = {kind: _palette(value) if kind == "image/png" else value}
        output.metadata = {}
    return output


def _palette(png: str) -> str:
    """A picture with 64 colours."""
    from PIL import Image

    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(64).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
