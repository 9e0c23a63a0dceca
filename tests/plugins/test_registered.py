"""Things registered by a call: groups in runs that move, and lenses with and without extras."""

import shutil
from dataclasses import asdict, dataclass, replace

import pytest

import statetrace as st
from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.lenses.lens import Lens
from statetrace.lenses.registry import LENSES, chosen
from statetrace.lenses.result import LensResult
from statetrace.reports.figures.chart import Chart, Line, Panel
from statetrace.reports.headlines import headline

TINY = {"length": 4, "layers": 1, "width": 16, "heads": 2, "steps": 2, "batch": 8}
TINY |= {"sequences": 200, "evaluate_sequences": 20}


@dataclass(frozen=True)
class DriftSpec:
    times: int = 3


def drift(model, task, spec, progress):
    progress(0.5)
    columns = {"layer": [0, 1] * 2, "kind": ["a", "a", "b", "b"], "value": [0.1, 0.2, 0.3, 0.4]}
    return LensResult("drift", asdict(spec), columns, summary={"by_layer": [0.1, 0.25], "top": 0.4})


@pytest.fixture
def register():
    before = dict(plugins._registered)
    yield plugins.register
    plugins._registered.clear()
    plugins._registered.update(before)


def test_a_run_on_a_group_of_your_own_can_be_moved(tmp_path):
    q8 = st.Group.from_matrices([[[0, 1], [2, 0]], [[1, 1], [1, 2]]], 3, name="Q8")
    st.train(group=q8, out=tmp_path / "run", **TINY)
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    model = st.load(tmp_path / "elsewhere")
    assert model.group == q8
    assert model.analyze("generalization", sequences=20)["generalization"].summary
    assert model.verdict().mechanism == "unlearned"
    again = st.train(out=tmp_path / "elsewhere", resume=True)
    assert again.group == q8
    q8.save(tmp_path / "q8.json")
    file = st.train(group=str(tmp_path / "q8.json"), out=tmp_path / "from file", **TINY)
    (tmp_path / "q8.json").unlink()
    assert st.load(file.run.path).group == q8
    st.train(out=tmp_path / "from file", resume=True)  # the run has the table
    st.Group.from_permutations(["213"], "two").save(tmp_path / "q8.json")
    with pytest.raises(StatetraceError, match="a different group"):
        st.train(out=tmp_path / "from file", resume=True)


def test_models_from_elsewhere_on_a_group_of_your_own(tmp_path):
    v4 = st.Group.from_permutations(["2143", "3412"], name="V4")
    made = st.compile("associative", v4, length=4, out=tmp_path / "made")
    assert st.load(tmp_path / "made").group == v4
    assert made.analyze("generalization", sequences=50)["generalization"].summary["accuracy"]
    adopted = st.load(made.model, group=v4, length=4)
    assert adopted.group == v4


def test_a_lens_without_extras_has_a_headline_and_a_figure(register, tmp_path):
    register("lens", "drift", Lens(DriftSpec, drift))
    model = st.compile("associative", "S3", length=4, out=tmp_path / "made")
    result = model.analyze("drift", times=5)["drift"]
    assert result.spec == {"times": 5}
    assert result.headline == "by layer 0.1 0.25; top 0.4"
    (panel,) = result.plot().panels
    assert [(line.name, line.x, line.y) for line in panel.marks] == [
        ("a", [0, 1], [0.1, 0.2]),
        ("b", [0, 1], [0.3, 0.4]),
    ]
    plugins.unregister("lens", "drift")  # the result can be read without the plug-in
    page = st.report([tmp_path / "made"], tmp_path / "page.html").read_text()
    assert "by layer 0.1 0.25" in page
    assert 'id="drift"' in page


def test_a_lens_may_bring_its_own_headline_and_figure(register):
    def figure(result):
        return Chart("drift", "Drift", (Panel("x", "y", (Line("only", [0], [1]),)),))

    lens = Lens(DriftSpec, drift, headline=lambda result: "it drifts", figure=figure, whole=True)
    register("lens", "drift", lens)
    model = st.compile("associative", "S3", length=4)
    results = model.analyze(["depth", "drift"], at_length=3, pairs=5)
    assert results["drift"].headline == "it drifts"
    assert results["drift"].plot().title == "Drift"
    register("lens", "drift", replace(lens, headline=lambda result: 1 / 0), replace=True)
    with pytest.warns(plugins.PluginWarning, match="'drift' failed: ZeroDivisionError"):
        assert headline(results["drift"]).startswith("by layer")


def test_a_lens_that_fails_does_not_stop_the_others(register):
    register("lens", "drift", Lens(DriftSpec, lambda *_: 1 / 0))
    register("lens", "empty", Lens(DriftSpec, lambda *_: None))
    model = st.compile("associative", "S3", length=4)
    results = model.analyze(["generalization", "drift", "empty"], sequences=20)
    assert set(results) == {"generalization"}
    assert "'drift' failed: ZeroDivisionError" in results.failures["drift"]
    assert "None" in results.failures["empty"]


def test_names_of_lenses(register):
    register("lens", "drift", Lens(DriftSpec, drift))
    assert chosen(None)[-1] == "drift"
    assert chosen("drift,patching") == ["patching", "drift"]
    assert next(iter(LENSES)) == "generalization"
    with pytest.raises(StatetraceError, match="did you mean 'drift'"):
        chosen("drifts")


@pytest.mark.parametrize(
    ("kind", "name", "thing", "quoted"),
    [
        ("group", "S3", None, "statetrace itself"),
        ("group", "a,b", None, "commas"),
        ("lens", "patching", None, "statetrace itself"),
        ("lens", "mine", Lens(dict, drift), "not a dataclass"),
        ("family", "gpt2-medium", None, "statetrace itself"),
        ("algorithm", "associative", None, "statetrace itself"),
        ("algorithm", "mine", dict, "not a subclass of Program"),
        ("objective", "state", None, "statetrace itself"),
        ("objective", "mine", 5, "'int', not an ObjectiveKind"),
    ],
)
def test_what_cannot_be_registered(kind, name, thing, quoted):
    with pytest.raises(StatetraceError) as raised:
        plugins.register(kind, name, thing)
    assert quoted in str(raised.value)
    assert repr(name) in str(raised.value)
    assert name not in plugins.names(kind)
