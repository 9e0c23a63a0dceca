"""The examples, cell by cell, as a notebook would run them."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

from statetrace import plugins
from statetrace.reports.figures.chart import Chart

EXAMPLES = Path(__file__).parents[2] / "examples"
MARK = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.MULTILINE)


def cells(file):
    """(kind, text) in turn, as the percent format has them."""
    text = file.read_text()
    marks = list(MARK.finditer(text))
    assert marks[0].start() == 0, "something stands before the first cell"
    assert len(marks) == text.count("# %%"), "a cell begins in an unknown way"
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        ("prose" if mark["kind"] else "code", text[mark.end() : end])
        for mark, end in zip(marks, ends, strict=True)
    ]


def run_cell(text, names, file):
    """Run a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(file), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(file), "eval"), names)


def run(name, folder):
    """Names that the example defined, what its cells showed, and what they printed."""
    file = EXAMPLES / name
    printed, names = io.StringIO(), {"__name__": "__main__"}
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        shown = [run_cell(text, names, file) for kind, text in cells(file) if kind == "code"]
    return names, [value for value in shown if value is not None], printed.getvalue()


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_prose_is_commented(file):
    for kind, text in cells(file):
        if kind == "prose":
            assert all(line.startswith("#") for line in text.strip().splitlines())


def test_the_tour(tmp_path, monkeypatch):
    names, shown, printed = run("tour.py", tmp_path)
    assert "213 and then 132 is 312" in printed
    assert (names["known"].mechanism, names["verdict"].mechanism) == (
        "associative",
        "parity-associative",
    )
    charts = [value for value in shown if isinstance(value, Chart)]
    assert [chart.name for chart in charts] == [
        "signatures", "generalization", "patching", "probes", "geometry",
    ]  # fmt: skip
    import plotly.io

    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")  # as in a notebook
    for chart in charts:
        bundle = chart._repr_mimebundle_(include=None, exclude=None)  # as IPython calls it
        assert bundle["application/vnd.plotly.v1+json"]["data"]
    assert "parity-associative" in (tmp_path / "runs/tour/report.html").read_text()


def test_your_own_checkpoint(tmp_path):
    names, _, _ = run("own_checkpoint.py", tmp_path)
    assert names["verdict"].mechanism == "parity-associative"
    assert (tmp_path / "own-checkpoint.html").is_file()


def test_patching_your_own_pairs(tmp_path):
    names, _, _ = run("patch_pairs.py", tmp_path)
    # parity is settled in the first layer: after it, a short prefix restores only what is left
    assert names["same"].mean()[2, 3] > 0.6
    assert names["opposite"].mean()[2, 3] < 0.3


def test_a_group_and_a_lens_of_your_own(tmp_path):
    try:
        names, _, _ = run("own_group_and_lens.py", tmp_path)
    finally:
        plugins.unregister("group", "Q8")
        plugins.unregister("lens", "confidence")
    assert names["q8"].order == 8
    assert not names["q8"].is_abelian()
    assert names["results"]["confidence"].summary["last"] > 0.9
