"""Charts as notebooks show them: one figure, every name and every colour scale once."""

from dataclasses import replace

from statetrace.reports.figures.attention import attention_maps
from statetrace.reports.figures.chart import Chart, Heat, Line, Panel
from statetrace.reports.figures.geometry import geometry
from statetrace.reports.figures.study_shares import study_proportions
from statetrace.reports.run_results import newest
from tests.reports.made_studies import make_study


def legend(figure):
    return [t.name for t in figure.data if t.showlegend and t.type != "heatmap"]


def test_names_stand_in_the_legend_once():
    lines = (Line("state", [1, 2], [0, 1]), Line("parity", [1, 2], [1, 1], "parity"))
    panel = Panel("length", "right answers", lines, "one")
    figure = Chart("x", "x", (panel,) * 5).plotly()
    assert legend(figure) == ["state", "parity"]
    assert len(figure.data) == 10
    assert {trace.legendgroup for trace in figure.data} == {"state", "parity"}


def test_many_panels_make_several_rows():
    panel = Panel("x", "y", (Line("state", [1, 2], [0, 1]),), "one")
    for count, across in ((1, 1), (3, 3), (4, 2), (5, 3)):
        figure = Chart("x", "x", (panel,) * count).plotly()
        starts = {round(axis.domain[0], 3) for axis in figure.select_xaxes()}
        assert len(starts) == across


def test_each_scale_has_its_bar(run):
    figure = attention_maps(newest(run)).plotly()
    bars = [t.colorbar.title.text for t in figure.data if t.type == "heatmap" and t.showscale]
    assert bars == ["attention", "score"]
    assert legend(figure) == ["odd actions"]
    heat = Heat([0, 1], [0, 1], [[0, 1], [1, 0]], "NLD")
    two = Chart("x", "x", tuple(Panel("x", "y", (h,)) for h in (heat, replace(heat, high=2.0))))
    assert sum(t.showscale for t in two.plotly().data) == 2


def test_space_and_bars_are_as_on_the_page(run, tmp_path):
    scene = geometry(newest(run)).plotly().layout.scene
    assert scene.aspectmode == "manual"
    assert max(scene.aspectratio[axis] for axis in "xyz") == 1
    shares = study_proportions(make_study(tmp_path / "study")).plotly()
    assert shares.layout.barmode == "overlay"
    assert legend(shares) == ["associative", "parity-associative"]
