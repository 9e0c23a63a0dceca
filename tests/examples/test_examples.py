"""The tour from a group to a verdict, cell by cell, as a notebook would run it."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

from statetrace.reports.figures.chart import Chart

TOUR = Path(__file__).parents[2] / "examples" / "tour.py"
MARK = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.MULTILINE)


def cells():
    """(kind, text) in turn, as the percent format has them."""
    text = TOUR.read_text()
    marks = list(MARK.finditer(text))
    assert marks[0].start() == 0, "something stands before the first cell"
    assert len(marks) == text.count("# %%"), "a cell begins in an unknown way"
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        ("prose" if mark["kind"] else "code", text[mark.end() : end])
        for mark, end in zip(marks, ends, strict=True)
    ]


def run_cell(text, names):
    """Run a cell; what its last line is worth, if that is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(TOUR), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(TOUR), "eval"), names)


def test_ten_cells_each_with_prose_before_it():
    found = cells()
    assert [kind for kind, _ in found] == ["prose", *["prose", "code"] * 10]
    for number, (_, text) in enumerate(found[1::2], start=1):
        assert text.startswith(f"# ## {number}. ")
    for kind, text in found:
        if kind == "prose":
            assert all(line.startswith("#") for line in text.strip().splitlines())


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """Where it was, and what each cell showed and printed."""
    folder = tmp_path_factory.mktemp("tour")
    printed, names = io.StringIO(), {"__name__": "__main__"}
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        shown = [run_cell(text, names) for kind, text in cells() if kind == "code"]
    return folder, shown, printed.getvalue()


def test_the_verdicts_are_right(toured):
    _, _, printed = toured
    assert "213 and then 132 is 312" in printed
    assert "compiled: it runs the associative algorithm" in printed
    assert "trained: it runs the parity-associative algorithm" in printed


def test_figures_show_themselves(toured, monkeypatch):
    import plotly.io

    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")  # as in a notebook
    charts = [value for value in toured[1] if isinstance(value, Chart)]
    names = ["signatures", "generalization", "patching", "probes", "geometry"]
    assert [chart.name for chart in charts] == names
    for chart in charts:
        assert chart.plotly().data
        shown = chart._repr_mimebundle_(include=None, exclude=None)  # as IPython asks
        assert shown["application/vnd.plotly.v1+json"]["data"]


def test_it_ends_with_a_page(toured):
    folder, _, printed = toured
    page = folder / "runs" / "tour" / "report.html"
    assert f"report: {page.relative_to(folder)}" in printed
    words = page.read_text()
    assert "It runs the parity-associative algorithm" in words
    assert "s3-parity-associative of the zoo" in words
