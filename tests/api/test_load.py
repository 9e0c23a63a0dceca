"""`st.load`: every kind of source gives the same model, and bad ones give a sentence."""

import subprocess
import sys

import pytest

import statetrace as st
from statetrace.zoo import checkpoint

LENGTH = 6


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return st.compile("associative", "S3", LENGTH, out=tmp_path_factory.mktemp("api") / "aa")


def accuracy(model):
    general = model.analyze("generalization", sequences=100, longest=LENGTH)["generalization"]
    return general.summary["accuracy"]["state"]


def test_a_run_folder_a_checkpoint_and_a_model_in_memory_are_one_model(compiled, tmp_path):
    folder = compiled.run.path
    bare = tmp_path / "bare"
    compiled.model.save_pretrained(bare)
    sources = {
        "run": st.load(folder),
        "checkpoint": st.load(bare, group="S3", length=LENGTH),
        "kept": st.load(bare, group="S3", length=LENGTH, out=tmp_path / "kept"),
        "memory": st.load(compiled.model, group="S3", length=LENGTH),
    }
    tables = {
        name: model.analyze("patching", pairs=20)["patching"].to_pandas()
        for name, model in sources.items()
    }
    for name, table in tables.items():
        assert table.equals(tables["run"]), name
    assert (tmp_path / "kept" / "lenses" / "patching.json").is_file()
    assert not (bare / "lenses").exists()


def test_a_bundled_model_needs_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = st.load("zoo:s3-parallel")
    assert (model.group.name, model.length) == ("S3", 12)
    assert accuracy(model) > 0.99
    assert not list(tmp_path.iterdir())


def test_a_marker_that_is_not_there_is_said_so():
    model = st.load(checkpoint("s3-no-marker"), group="S3", length=24, start_marker=False)
    assert model.task.vocabulary.offset == 0


@pytest.mark.parametrize(
    ("source", "settings", "quoted"),
    [
        ("zoo:s9-sequential", {"group": "S3"}, "no model 's9-sequential'"),
        ("zoo:s3-parallel", {"group": "S3"}, "group S3"),
        ("zoo:s3-parallel", {"step": 5}, "step 5"),
        ("./nowhere", {"group": "S3", "length": 4}, "nowhere"),
        ("folder", {}, "group and length"),
        ("folder", {"group": "S3"}, "length"),
        ("folder", {"group": "Q7", "length": 4}, "Q7"),
        ("folder", {"group": "S3", "length": 4, "padding": "visible"}, "padding visible"),
        ("folder", {"group": "S3", "length": 4, "step": 3}, "step 3"),
        ("folder", {"group": "S3", "length": 4, "tokens": [0, 1]}, "2 token ids"),
        (
            "folder",
            {"group": "S3", "length": 4, "start_token": 7, "start_marker": False},
            "7 contr",
        ),
        (7, {"group": "S3", "length": 4}, "int"),
    ],
)
def test_bad_input_is_one_sentence(source, settings, quoted, compiled, tmp_path):
    if source == "folder":
        source = tmp_path / "bare"
        compiled.model.save_pretrained(source)
    with pytest.raises(st.StatetraceError, match=quoted):
        st.load(source, **settings)


def test_importing_is_quick_and_leaves_torch_out():
    code = (
        "import sys, time; start = time.process_time(); import statetrace as st; "
        "st.Group, st.group('S3'); print(time.process_time() - start, 'torch' in sys.modules); "
        "print(sorted(st.__all__) == sorted(n for n in st.__all__ if getattr(st, n)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (seconds, torch), (public,) = (line.split() for line in ran.stdout.splitlines())
    assert torch == "False"
    assert public == "True"
    assert float(seconds) < 3  # 0.1 s where nothing else runs
