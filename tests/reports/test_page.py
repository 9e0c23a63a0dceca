"""The report as text: size, escaping, what is missing, several runs."""

import base64
import gzip
import json
import re
import shutil

import pytest

from statetrace.errors import StatetraceError
from statetrace.files import write_json
from statetrace.reports import page
from statetrace.reports.cards import link_table
from statetrace.reports.figures.predicted import prediction
from statetrace.reports.page import report, write_report
from statetrace.reports.run_results import all_results, newest
from statetrace.runs import Run


def numbers(html):
    """The data inside a page."""
    packed = re.search(r'id="data-packed">([^<]*)<', html)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def visible(html):
    """The page without what is packed into it and without its script and style."""
    return re.sub(r"<script.*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL)


def test_one_file_small_enough_and_the_same_again(run, tmp_path):
    size = write_report([run], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert size == len(text.encode()) < 8_000_000
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)
    assert report([run]) == text


def test_the_verdict_comes_first_with_its_evidence(run):
    text = visible(report([run]))
    assert "It runs the parity-associative algorithm, at length 6." in text
    assert "<strong>97%</strong>" in text
    assert "nearest to parity-associative (0.10 away)" in text
    assert text.index("It runs the") < text.index("<section class=")


def test_the_links_are_a_table(run):
    head, rows = link_table(newest(run).verdict["links"])
    assert head[:3] == ["link", "layers at length 2", "at 6"]
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["computed by"] for row in cells] == ["counting (98%)", "composing (97%)"]
    assert [row["on its own"] for row in cells] == ["yes (99%)", ""]
    assert [row["learned"] for row in cells] == ["before the state", ""]
    assert "composing (97%)" in visible(report([run]))


@pytest.mark.parametrize("links", [None, "S3", [{}], [{"link": "parity", "lengths": []}]])
def test_verdicts_without_links_have_no_such_table(links):
    assert link_table(links) == ([], [])


def test_a_verdict_of_an_older_version_is_shown(run, tmp_path):
    shutil.copytree(run, tmp_path / "old")
    file = tmp_path / "old" / "verdict.json"
    verdict = json.loads(file.read_text())
    del verdict["links"]
    verdict["evidence"]["patching"]["scores"] = {"associative": -2.0, "parity-associative": -0.5}
    file.write_text(json.dumps(verdict))
    text = visible(report([tmp_path / "old"]))
    assert "nearest to parity-associative (0.10 away)" in text
    assert "How each link is computed" not in text


def test_each_algorithm_stands_beside_the_model(run):
    figures = {figure["name"]: figure for figure in numbers(report([run]))["figures"]}
    heads = [column["head"] for column in figures["compare-patching"]["columns"]]
    assert heads == ["mine", "sequential", "parallel", "associative", "parity-associative"]
    for name in ("compare-patching", "compare-probes", "compare-depth"):
        assert all(column["states"][0]["views"] for column in figures[name]["columns"])


def test_several_runs_have_the_same_axes_and_scale(run, other):
    data = numbers(report([run, other]))
    figure = next(p for p in data["figures"] if p["name"] == "patching")
    mine, theirs = (column["states"][-1]["views"] for column in figure["columns"])
    for key in set(mine) & set(theirs):
        first, second = (views[key]["panels"][0] for views in (mine, theirs))
        layouts = [data["traces"][panel["layout"]] for panel in (first, second)]
        for axis in ("xaxis", "yaxis"):
            assert layouts[0][axis]["range"] == layouts[1][axis]["range"]
        assert first["scale"] == second["scale"]


def test_missing_lenses_leave_the_command_that_makes_them(run, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(run, bare)
    shutil.rmtree(bare / "lenses")
    (bare / "verdict.json").unlink()
    html = report([bare])
    assert f"statetrace verdict {bare}" in html
    for figure in numbers(html)["figures"]:
        first = figure["columns"][0]["states"][0]
        assert not first["views"]
        if figure["name"] == "training":  # a compiled model has no log
            assert "not trained here" in first["missing"]
        else:
            assert first["command"].startswith(f"statetrace analyze {bare} --only ")
            assert html.count(first["command"] + "</code>") >= 1  # in the list, not in a section
            assert f'id="{figure["name"]}"' not in html


def at_length(lenses, name, length, step=900):
    """A lens's result moved to where `analyze --at-length` would have left it."""
    folder = lenses / f"length-{length}"
    folder.mkdir(exist_ok=True)
    for file in lenses.glob(f"{name}.*"):
        shutil.copy(file, folder)
    about = json.loads((folder / f"{name}.json").read_text())
    write_json(folder / f"{name}.json", about | {"subject": {"step": step}})


def test_results_at_shorter_lengths_are_shown(run, tmp_path):
    """As `analyze --at-length` leaves them; predictions are then made for that length."""
    shutil.copytree(run, tmp_path / "run")
    lenses = tmp_path / "run" / "lenses"
    at_length(lenses, "patching", 3)
    at_length(lenses, "patching", 4)
    at_length(lenses, "patching", 5, step=500)
    whole = newest(tmp_path / "run")
    assert (whole.shorter_length, whole.length_of("patching")) == (
        None,
        6,
    )  # what saw all actions counts
    for file in lenses.glob("patching.*"):
        file.unlink()
    results = newest(tmp_path / "run")
    assert (results.shorter_length, results.step) == (4, 900)  # not that of an older checkpoint
    assert results.about.endswith("on S3, length 6 (analyzed up to length 4)")
    assert results.need("patching").lens == "patching"
    assert prediction(results, "associative").length == results.length_of("patching") == 4
    assert prediction(results, "associative", "probing").length == 6
    assert "actions needed to restore" in visible(report([tmp_path / "run"]))


def test_newer_results_at_a_shorter_length_precede_older_ones_at_full_length(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    at_length(tmp_path / "run" / "lenses", "patching", 4, step=1000)
    results = newest(tmp_path / "run")
    assert (results.step, results.length_of("patching"), results.length_of("probing")) == (
        1000,
        4,
        6,
    )


def test_a_checkpoint_with_results_at_a_shorter_length_only_is_listed(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    lenses = tmp_path / "run" / "lenses"
    at_length(lenses, "patching", 4, step=100)
    (lenses / "step-100").mkdir()
    (lenses / "length-4").rename(lenses / "step-100" / "length-4")
    first = all_results(Run(tmp_path / "run"))[0]
    assert (first.step, first.length_of("patching")) == (100, 4)


def test_a_damaged_result_does_not_spoil_the_rest(run, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(run, bad)
    (bad / "lenses" / "patching.parquet").write_bytes(b"nothing")
    (bad / "verdict.json").write_text("{")
    html = report([bad])
    assert f"{bad}/lenses/patching.parquet&#39; is damaged (" in visible(html)
    figures = {figure["name"]: figure for figure in numbers(html)["figures"]}
    assert not figures["patching"]["columns"][0]["states"][-1]["views"]
    assert figures["probes"]["columns"][0]["states"][-1]["views"]


def test_text_from_outside_is_escaped(run, tmp_path):
    evil = tmp_path / "<script>alert(1)</script>"  # the slash makes two folders of it
    shutil.copytree(run, evil)
    info = json.loads((evil / "run.json").read_text())
    info["compiled"]["algorithm"] = "<img src=x onerror=alert(2)>"
    write_json(evil / "run.json", info)
    verdict = json.loads((evil / "verdict.json").read_text())
    verdict["says"] = "<b onclick=alert(3)>{{js}}</b>"
    verdict["evidence"]["<i>"] = {"says": "</script><script>alert(4)</script>"}
    verdict["links"][0]["link"] = "<img src=x onerror=alert(5)>"
    write_json(evil / "verdict.json", verdict)
    (evil / "lenses" / "probing.json").unlink()
    html = report([evil, run])
    for tag in ("<script>alert", "<img src=x", "<b onclick", "<i>"):
        assert tag not in html
    assert "&lt;b onclick=alert(3)&gt;{{js}}" in html
    figures = {figure["name"]: figure for figure in numbers(html)["figures"]}
    assert "'" in figures["probes"]["columns"][0]["states"][-1]["command"]  # shell-quoted


def test_too_large_a_page_says_what_it_leaves_out(run, monkeypatch):
    whole = len(report([run]))
    monkeypatch.setattr(page, "LIMIT", whole - 1)
    thinner = report([run])
    assert len(thinner) < whole
    assert "Left out to keep this file small: single pairs" in thinner
    monkeypatch.setattr(page, "LIMIT", 1000)
    with pytest.raises(StatetraceError, match="fewer runs"):
        report([run])


def test_bad_requests(run, tmp_path):
    with pytest.raises(StatetraceError, match="holds no run"):
        report([tmp_path])
    with pytest.raises(StatetraceError, match="9 runs are too many"):
        report([run] * 9)
