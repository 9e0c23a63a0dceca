"""Results: the same numbers as the lenses, computed once, shown in a few lines."""

import json

import numpy as np
import pytest

import statetrace as st
from statetrace.api import TrackedModel
from statetrace.lenses.patching import patching
from statetrace.lenses.specs import PatchingSpec
from statetrace.reports.figures.chart import Chart

LENGTH = 6


@pytest.fixture(scope="module")
def model():
    return st.compile("parity-associative", "S3", LENGTH)


@pytest.fixture(scope="module")
def results(model):
    return model.analyze(pairs=30, sequences=300)


def test_a_result_is_the_lens_s_own(model):
    own = patching(model.model, model.task, PatchingSpec(pairs=30, seed=5))
    result = model.analyze("patching", pairs=30, seed=5, thorough=True)["patching"]
    assert dict(result.columns) == dict(own.columns)
    for name, array in own.arrays.items():
        np.testing.assert_array_equal(result.arrays[name], array)
    assert result.to_pandas().shape == (len(own.rows()), len(own.columns))


def test_all_lenses_that_apply_without_a_log(results):
    assert list(results) == [
        "generalization", "probing", "patching", "depth", "attention", "geometry",
    ]  # fmt: skip


def test_every_lens_draws_itself(results):
    for name, result in results.items():
        chart = result.plot()
        assert isinstance(chart, Chart), name
        assert chart.panels


def test_a_figure_s_options_are_checked(results):
    same, opposite = (
        results["patching"].plot(pairs=pairs) for pairs in ("same parity", "opposite parity")
    )
    assert same.panels[0].heat.z != opposite.panels[0].heat.z
    with pytest.raises(st.StatetraceError, match="pairs = 'none'"):
        results["patching"].plot(pairs="none")
    with pytest.raises(st.StatetraceError, match="'prisms'"):
        results["patching"].plot("prisms")


def test_shown_in_a_few_lines(model, results):
    assert all("<table" in result._repr_html_() for result in results.values())
    for shown in (results, model.verdict(), *results.values()):
        lines = repr(shown).splitlines()
        assert len(lines) < 30
        assert max(map(len, lines)) <= 80
    assert "parity-associative" in model.verdict()._repr_html_()


def test_results_are_computed_once():
    calls = []

    class Counting(TrackedModel):
        def _compute(self, lens, *arguments):
            calls.append(lens)
            return super()._compute(lens, *arguments)

    model = Counting(st.compile("associative", "S3", LENGTH).loaded, name="counting")
    tables = [model.analyze("depth", pairs=20)["depth"].to_pandas() for _ in range(2)]
    assert tables[0].equals(tables[1])
    assert len(calls) == 1
    model.analyze("depth", pairs=21)
    model.analyze("depth", pairs=21, recompute=True)
    assert len(calls) == 3


def test_results_of_a_folder_are_kept_in_it(tmp_path):
    folder = tmp_path / "aa"
    st.compile("associative", "S3", LENGTH, out=folder).analyze("depth", pairs=20)
    stamp = (folder / "lenses" / "depth.parquet").stat().st_mtime_ns
    st.load(folder).analyze("depth", pairs=20)
    assert (folder / "lenses" / "depth.parquet").stat().st_mtime_ns == stamp
    st.load(folder).analyze("depth", pairs=21)
    assert (folder / "lenses" / "depth.parquet").stat().st_mtime_ns != stamp


def test_verdicts_in_memory_and_in_a_folder_agree(tmp_path):
    kept = st.compile("associative", "S3", LENGTH, out=tmp_path / "aa")
    memory = st.compile("associative", "S3", LENGTH)
    assert kept.verdict().to_dict() == memory.verdict().to_dict()
    assert kept.verdict().mechanism == "associative"
    written = json.loads((tmp_path / "aa" / "verdict.json").read_text())
    assert written["mechanism"] == "associative"


@pytest.mark.parametrize(
    ("lenses", "settings", "quoted"),
    [
        ("patches", {}, "patches"),
        ("patching", {"pears": 5}, "pears"),
        ("patching", {"pairs": "many"}, "many"),
        ("patching", {"probing": {"train": 5}}, "probing"),
        ("dynamics", {}, "no training log"),
        ("patching", {"at_length": 99}, "99"),
    ],
)
def test_bad_settings_are_one_sentence(model, lenses, settings, quoted):
    with pytest.raises(st.StatetraceError, match=quoted):
        model.analyze(lenses, **settings)


def test_models_in_memory_and_on_disk_share_a_report(model, tmp_path):
    other = st.compile("associative", "S3", LENGTH, out=tmp_path / "aa")
    page = st.report([model, other], tmp_path / "report.html").read_text()
    assert "compiled parity-associative" in page
    assert model.report(tmp_path / "one.html").stat().st_size > 100_000


def test_training_without_a_folder():
    tiny = {"layers": 1, "width": 16, "heads": 2, "steps": 4, "batch": 8, "sequences": 200}
    model = st.train(group="S3", length=4, device="cpu", evaluate_every=2, **tiny)
    assert model.verdict().mechanism == "unlearned"
    assert set(model.analyze("dynamics")) == {"dynamics"}


def test_signatures_are_tables_and_figures():
    predicted = st.signatures("A5", length=4)
    assert list(predicted) == ["sequential", "associative"]
    assert set(predicted.unavailable) == {"parallel", "parity-associative"}
    assert set(predicted.to_pandas()["algorithm"]) == {"sequential", "associative"}
    assert len(repr(predicted)) < 300
    assert len(repr(predicted.figure())) < 300
    assert predicted.figure()._repr_png_().startswith(b"\x89PNG")
