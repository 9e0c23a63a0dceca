"""The tutorials: every cell runs, and the committed outputs are those of the committed code."""

import ast
import contextlib
from pathlib import Path

import nbformat
import pytest

from statetrace.reports.figures.chart import Chart
from website.notebooks import LARGEST, SHOWN, fingerprint, to_markdown

FILES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


def run_cell(text, names, file):
    """Run a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(file), "exec"), names)
    return last and eval(compile(ast.Expression(last.value), str(file), "eval"), names)


def run(name, folder):
    """The names that the notebook defined, and the values that its cells show."""
    file = next(file for file in FILES if file.stem == name)
    names = {"__name__": "__main__"}
    code = [c.source for c in nbformat.read(file, as_version=4).cells if c.cell_type == "code"]
    with contextlib.chdir(folder):
        shown = [run_cell(source, names, file) for source in code]
    return names, [value for value in shown if value is not None]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_outputs_are_committed_small_and_of_this_code(file, tmp_path):
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert file.stat().st_size <= LARGEST
    assert notebook.metadata["executed"] == fingerprint(notebook), (
        f"its code has changed: run `python -m website.notebooks {file}`"
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {kind for c in cells for output in c.outputs for kind in output.get("data", {})}
    assert "image/png" in kinds
    assert kinds <= set(SHOWN)
    page = to_markdown(file, tmp_path / "page.md")
    assert page.count("![](") == len(list(tmp_path.glob("*.png")))


def test_train_and_look(tmp_path):
    names, shown = run("train-and-look", tmp_path)
    assert names["mine"].run.metrics("evaluation")[-1]["accuracy"]["state"] > 0.9
    assert names["known"].mechanism == "associative"
    charts = [value.name for value in shown if isinstance(value, Chart)]
    assert charts == ["training", "signatures", "generalization", "patching", "depth"]


def test_charts_show_plotly_and_a_picture():
    import statetrace as st

    chart = st.signatures("S3", length=4).plot()
    bundle = chart._repr_mimebundle_(include=None, exclude=None)  # as IPython calls it
    assert bundle["application/vnd.plotly.v1+json"]["data"]
    assert chart._repr_png_().startswith(b"\x89PNG")


def test_your_own_checkpoint(tmp_path):
    names, _ = run("your-own-checkpoint", tmp_path)
    assert names["verdict"].mechanism == "associative"
    assert (tmp_path / "report.html").is_file()


def test_patching_your_own_pairs(tmp_path):
    names, _ = run("patch-your-own-pairs", tmp_path)
    # parity is settled in the first layer: after it, a short prefix restores only what is left
    assert names["same"].mean()[2, 3] > 0.6
    assert names["opposite"].mean()[2, 3] < 0.3


def test_a_group_and_a_lens_of_your_own(tmp_path):
    names, _ = run("your-own-group-and-lens", tmp_path)
    assert names["q8"].order == 8
    assert names["results"]["confidence"].summary["last"] > 0.9
