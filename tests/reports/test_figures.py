"""Every figure is drawn from saved tables, and shows their numbers."""

import csv
import re
import shutil
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.lenses.result import LensResult
from statetrace.reports.figures import attention, predicted
from statetrace.reports.figures.attention import (
    attention_maps,
    attention_tree,
    tree_choices,
    trees,
)
from statetrace.reports.figures.catalogue import CATALOGUE, predictions
from statetrace.reports.figures.chart import COLOURS, Chart, Heat, Line, Panel, ReferenceLine
from statetrace.reports.figures.generalization import generalization
from statetrace.reports.figures.geometry import geometry, measures
from statetrace.reports.figures.patching import patching
from statetrace.reports.figures.plotly_renderer import coloured, picture
from statetrace.reports.figures.probing import probes
from statetrace.reports.files import write_figures
from statetrace.reports.run_results import RunResults, all_results, newest
from statetrace.runs import Run

DRAWN = [entry for entry in CATALOGUE if entry.lens]
"""Those of lenses; stages have a test of their own."""
NAMES = [entry.name for entry in DRAWN]


@pytest.mark.parametrize("entry", DRAWN, ids=NAMES)
def test_every_view_is_drawn_and_the_first_is_good_plotly(entry, run):
    import plotly.graph_objects as go

    results = newest(run)
    charts = {}
    for chosen, draw in entry.views(results):
        if any(option.startswith("pair ") for option in chosen):
            with suppress(StatetraceError):  # a split may have fewer pairs
                charts[chosen] = draw()
        else:
            charts[chosen] = draw()
    assert charts
    for chart in charts.values():
        assert chart.rows(), "a picture without numbers"
    first = next(iter(charts.values()))
    for panel in first.panels:
        go.Figure(coloured(picture(panel)))  # plotly refuses what it does not know
    assert first.plotly().data


@pytest.mark.parametrize("split", ["all", "same parity", "opposite parity"])
def test_patching_shows_the_table(split, run):
    results = newest(run)
    heat = patching(results, pairs=split).panels[0].heat
    assert heat is not None
    cells = {"where": "prefix", "what": "substitution", "split": split, "metric": "nld"}
    rows = results.need("patching").rows(**cells)
    assert len(rows) == len(heat.x) * len(heat.y)
    for row in rows:
        shown = heat.z[row["layer"]][row["position"]]
        assert shown == pytest.approx(row["mean"], rel=1e-3)


def test_a_single_pair_is_of_its_split(run):
    results = newest(run)
    arrays = results.need("patching").arrays
    parity = results.group.parity
    same = parity[arrays["clean_state"]] == parity[arrays["corrupted_state"]]
    first = int(np.flatnonzero(~same)[0])
    heat = patching(results, pairs="opposite parity", show="pair 1").panels[0].heat
    assert heat is not None
    want = arrays["prefix-substitution-resid.nld"][:, :, first]
    np.testing.assert_allclose(np.array(heat.z, dtype=float), want, rtol=1e-3, atol=1e-6)


def test_the_deviation_is_another_picture(run):
    results = newest(run)
    mean, deviation = (
        patching(results, show=show).panels[0].heat for show in ("mean", "deviation")
    )
    assert mean is not None
    assert deviation is not None
    assert mean.z != deviation.z
    assert deviation.low == 0


def test_predicted_curves_stand_behind_the_measured_ones(run):
    marks = probes(newest(run), predicted_by="parity-associative").panels[0].marks
    behind = [mark for mark in marks if isinstance(mark, Line) and mark.behind]
    assert [mark.name for mark in behind] == ["state, predicted", "parity, predicted"]
    assert marks.index(behind[-1]) < next(i for i, m in enumerate(marks) if not m.behind)


@pytest.mark.parametrize(
    ("algorithm", "law"),
    [
        ("sequential", lambda n: n - 1),
        ("associative", lambda n: int(np.ceil(np.log2(n)))),
        ("parallel", lambda n: None),
    ],
)
def test_predicted_depths_follow_the_algorithms_laws(algorithm, law):
    lengths = (2, 3, 4, 8, 16)
    chart = predicted.depth(RunResults({}, group("S3"), 16), algorithm, lengths)
    needed = chart.panels[0].marks[0].y
    if law(2) is None:
        assert np.ptp(needed) < 0.5
    else:
        assert needed == pytest.approx([law(n) for n in lengths], abs=0.1)


def test_the_prism_has_its_edges_and_planes(run):
    marks = geometry(newest(run)).panels[0].marks
    names = {mark.name for mark in marks}
    assert {"pairs", "same parity", "even plane", "odd plane", "even", "odd"} <= names
    pairs = next(mark for mark in marks if mark.name == "pairs")
    assert len(pairs.ends) == 3
    heights = {name: {round(c[2], 3) for c in next(m for m in marks if m.name == name).corners}
               for name in ("even plane", "odd plane")}  # fmt: skip
    assert heights["even plane"] != heights["odd plane"]
    assert measures(newest(run)).panels


@pytest.mark.parametrize(
    ("cutoffs", "expected"),
    [
        ((30, None), [("state cutoff 30", "left", 0.02, 30)]),
        ((3, 3), [("state and parity cutoff 3", "right", 0.02, 3)]),
        ((20, 22), [("cutoffs: state 20, parity 22", "left", 0.02, 20)]),
        ((3, 30), [("cutoffs: state 3, parity 30", "right", 0.02, 3)]),
        ((None, None), []),
    ],
)
def test_cutoffs_are_told_beside_their_line_and_not_over_each_other(cutoffs, expected):
    lengths = list(range(1, 41))
    columns = {"what": ["state"] * 40 + ["parity"] * 40, "length": lengths * 2}
    columns |= {key: [1.0] * 80 for key in ("accuracy", "low", "high")}
    ends = dict(zip(("state", "parity"), ({"first_below": end} for end in cutoffs), strict=True))
    summary = {"training_length": 20, "longest": 40, "threshold": 0.98, "cutoff": ends}
    result = LensResult("generalization", {}, columns, summary=summary)
    panel = generalization(RunResults([result], group("S3"), 20)).panels[0]
    rules = [mark for mark in panel.marks if isinstance(mark, ReferenceLine) and mark.axis == "x"]
    assert [rule.at for rule in rules] == sorted({end for end in cutoffs if end})
    assert [(rule.text, *rule.beside) for rule in rules if rule.text] == expected


def test_files_are_vector_with_embedded_fonts_and_a_table_beside(run, tmp_path):
    made, missing = write_figures(run, tmp_path / "out", "pdf", ["patching", "geometry"])
    assert not missing
    assert len(made) > 3
    for path in made:
        data = path.read_bytes()
        assert b"/FontFile2" in data, "a font is not embedded"
        assert b"/Type3" not in data
        width = float(re.search(rb"/MediaBox \[\s*0 0 ([\d.]+)", data)[1]) / 72
        assert width <= 6.76
        with path.with_suffix(".csv").open() as file:
            assert len(list(csv.reader(file))) > 3


def test_every_figure_makes_a_file(run, tmp_path):
    made, missing = write_figures(run, tmp_path, "svg")
    assert not missing
    drawn = {path.stem for path in made}
    for name in (*NAMES, "predicted-associative", "predicted-parity-associative"):
        assert any(stem.startswith(name) for stem in drawn), name


def test_no_command_is_named_that_would_not_help(run, tmp_path):
    copy = tmp_path / "compiled"
    shutil.copytree(run, copy)
    for file in (copy / "lenses").glob("*"):
        if file.stem in ("dynamics", "depth"):
            file.unlink()
    _, missing = write_figures(copy, tmp_path / "out", "svg", ["training", "depth"])
    assert "was not trained here" in missing[0]
    assert f"statetrace analyze {copy} --only depth" in missing[1]


def test_predictions_leave_out_what_does_not_exist(run):
    assert [name for name, _ in predictions(newest(run))][-1] == "predicted-parity-associative"


def test_bad_requests_are_quoted(run, tmp_path):
    with pytest.raises(StatetraceError, match="'doc'"):
        write_figures(run, tmp_path, "doc")
    with pytest.raises(StatetraceError, match="'heatmap'"):
        write_figures(run, tmp_path, "pdf", ["heatmap"])
    with pytest.raises(StatetraceError, match="map 'nothing' is unknown"):
        patching(newest(run), map="nothing")
    chart = Chart("x", "x", (Panel("x", "y", (Heat([0, 1], [0], [[1, 2]], "z"),)),))
    with pytest.raises(StatetraceError, match=r"x\.doc"):
        chart.save(tmp_path / "x.doc")


def test_checkpoints_are_found_in_order(run):
    assert [results.step for results in all_results(Run(run))] == [300, 900]


def test_the_page_and_paper_have_the_same_colours():
    from importlib.resources import files

    css = files("statetrace.reports").joinpath("assets", "page.css").read_text()
    light = dict(re.findall(r"--([a-z]+): (#[0-9A-F]{6})", css.split("}")[0]))
    assert {name: light[name] for name in COLOURS} == COLOURS


def test_no_torch_and_no_plotly_are_needed_to_read_a_run():
    code = (
        "import sys, statetrace.reports.page, statetrace.reports.files;"
        "print([m for m in ('torch', 'plotly', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_colors_of_head_scores_end_at_the_highest_possible_score(run):
    results = newest(run)
    most = results.need("attention").summary["score_ceiling"]
    assert most == pytest.approx(200)  # at length 6: two prefixes, divided by one
    assert attention_maps(results).panels[-1].heat.high == most / 100


@pytest.mark.parametrize("most", [2, 4, 5])
def test_maps_of_long_sequences_show_the_largest_weight_of_squares(run, monkeypatch, most):
    results = newest(run)
    whole = [panel.heat for panel in attention_maps(results).panels[:-1]]
    monkeypatch.setattr(attention, "MOST_CELLS", most)
    coarse = [panel.heat for panel in attention_maps(results).panels[:-1]]
    size = -(-6 // most)
    for heat, other in zip(whole, coarse, strict=True):
        z = np.array(heat.z, dtype=float)
        starts = range(0, 6, size)
        squares = [
            [np.fmax.reduce(z[y : y + size, x : x + size], None) for x in starts] for y in starts
        ]
        np.testing.assert_array_equal(np.array(other.z, dtype=float), squares)
        assert len(other.x) == len(other.y) == len(starts)
    assert coarse[0].label == f"largest attention of {size} by {size}"


def test_the_fullest_attention_tree_comes_first(run):
    results = newest(run)
    saved = {f"tree{n}_edges": np.zeros((edges, 3)) for n, edges in enumerate((0, 5, 2))}
    assert trees(LensResult("attention", {}, {}, saved)) == [1, 2, 0]
    first = tree_choices(results)["example"][0]
    assert attention_tree(results).rows() == attention_tree(results, first).rows()
    with pytest.raises(StatetraceError, match="attention tree '99' is unknown; use one of 1"):
        attention_tree(results, "99")
