"""Four and more objects in space: colours say where one of them is, and which one that is."""

import dataclasses
import json

import pytest

from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.lenses.geometry import geometry as look_at
from statetrace.lenses.specs import GeometrySpec
from statetrace.models.compiled import compile_model
from statetrace.reports.figures.chart import Cloud, Path3, Plane
from statetrace.reports.figures.geometry import geometry, measures
from statetrace.reports.figures.plotly_renderer import picture
from statetrace.reports.run_results import newest
from statetrace.tasks.word_problem import word_problem

QUICK = GeometrySpec(sequences=800, permutations=0, points=60)


def seen(folder, group, notation="moves", algorithm="associative"):
    """A run folder with nothing but the geometry of a compiled model."""
    model = compile_model(CompileSpec(group, algorithm, 3, notation=notation))
    result = look_at(model, word_problem(group, length=3, notation=notation), QUICK)
    folder.mkdir(parents=True)
    about = {"group": group, "length": 3, "notation": notation}
    (folder / "run.json").write_text(json.dumps({"format": 1, "foreign": about}))
    dataclasses.replace(result, subject={"step": None}).save(folder / "lenses")
    return newest(folder)


@pytest.fixture(scope="module")
def s4(tmp_path_factory):
    return seen(tmp_path_factory.mktemp("shape") / "s4", "S4")


def states(chart, position, thing="object 1"):
    """Labels of the means with that colour, even and odd."""
    states_at = []
    for mark in chart.panels[0].marks:
        if isinstance(mark, Cloud) and mark.name == f"{thing} at {position}":
            states_at += [t.split()[2].rstrip(",") for t in mark.texts if t.startswith("mean of")]
    return states_at


@pytest.mark.parametrize("thing", [1, 3])
def test_colours_are_positions_of_the_object_that_is_named(s4, thing):
    chart = geometry(s4, coloured_by=f"position of object {thing}")
    assert chart.panels[0].title.endswith(f"by position of object {thing}")
    for position in range(1, 5):
        states_at = states(chart, position, f"object {thing}")
        # "moves": the k-th digit says where object k goes
        assert sorted(states_at) == [
            s for s in sorted(s4.group.labels) if s[thing - 1] == str(position)
        ]


def test_the_other_notation_has_the_same_meaning(tmp_path):
    results = seen(tmp_path / "s4", "S4", "receives")
    for position in range(1, 5):
        # "receives": the j-th digit says which object is at j
        wanted = [s for s in sorted(results.group.labels) if s[position - 1] == "1"]
        assert sorted(states(geometry(results), position)) == wanted


def test_object_1_comes_first_and_parity_can_be_had(s4):
    first = geometry(s4)
    assert first.panels[0].title.endswith(", by position of object 1")
    marks = first.panels[0].marks
    assert sum(isinstance(mark, Plane) for mark in marks) == 2
    joined = next(mark for mark in marks if isinstance(mark, Path3))
    assert len(joined.ends) == 4, "each position once, across parity"
    middle = next(m for m in marks if isinstance(m, Cloud) and m.strong)
    assert middle.texts == ["1", "1", "2", "2", "3", "3", "4", "4"]
    names = {mark.name for mark in geometry(s4, coloured_by="parity").panels[0].marks}
    assert {"even", "odd"} <= names
    with pytest.raises(StatetraceError, match="'object 9'"):
        geometry(s4, coloured_by="object 9")


def test_the_clearest_object_is_the_one_that_explains_most(s4):
    shares = s4.need("geometry").summary["arrangement_share"]
    best = max((f"object {k}" for k in range(1, 5)), key=lambda name: shares[name])
    title = geometry(s4, coloured_by="position of the clearest object").panels[0].title
    assert title.endswith(f"by position of {best}")


def test_shares_of_each_object_are_drawn_by_layer(s4):
    panel = measures(s4).panels[-1]
    assert panel.title == "by the position of one object"
    lines = {line.name: line for line in panel.marks}
    for k in range(1, 5):
        rows = s4.need("geometry").rows(measure="arrangement_share", name=f"object {k}")
        wanted = [row["value"] for row in rows]
        assert lines[f"object {k}"].y == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("group", ["S3", "Z4"])
def test_smaller_and_other_groups_stay_as_they_are(tmp_path, group):
    results = seen(tmp_path / group, group)
    assert "position" not in geometry(results).panels[0].title
    with pytest.raises(StatetraceError, match="position of object 1"):
        geometry(results, coloured_by="position of object 1")


@pytest.mark.parametrize("view", ["from above", "from the side"])
def test_angles_are_true_when_seen_straight_on(s4, view):
    scene = picture(geometry(s4, view=view).panels[0])["layout"]["scene"]
    assert scene["camera"]["projection"]["type"] == "orthographic"
    sides = [high - low for low, high in geometry(s4).panels[0].box]
    ratio = [scene["aspectratio"][axis] for axis in "xyz"]
    assert [r / ratio[0] for r in ratio] == pytest.approx([s / sides[0] for s in sides], rel=1e-3)
    oblique = picture(geometry(s4).panels[0])["layout"]["scene"]
    assert oblique["camera"]["projection"]["type"] == "perspective"
    assert max(oblique["aspectratio"].values()) == 1


def test_there_is_room_for_all_means_and_planes(s4):
    panel = geometry(s4).panels[0]
    held = [corner for mark in panel.marks if isinstance(mark, Plane) for corner in mark.corners]
    for mark in panel.marks:
        if isinstance(mark, Cloud) and mark.texts[0].startswith("mean of"):
            held += mark.points
    assert len(held) == 8 + 24
    for point in held:
        for value, (low, high) in zip(point, panel.box, strict=True):
            assert low < value < high
