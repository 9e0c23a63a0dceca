"""Wrong types and typos: one sentence that quotes the value, never a traceback from inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import statetrace as st
from statetrace.zoo import checkpoint

FOLDER = checkpoint("s3-no-marker")


@pytest.fixture(scope="module")
def model() -> st.TrackedModel:
    return st.compile("associative", "S3", length=4)


@pytest.mark.parametrize(
    ("settings", "quoted"),
    [
        ({"group": 3}, "group 3 is not a group"),
        ({"group": ["S3"]}, r"\['S3'\]"),
        ({"length": "14"}, "whole number, not '14'"),
        ({"length": 2.5}, "whole number, not 2.5"),
        ({"length": True}, "whole number, not True"),
        ({"tokens": 5}, "token ids, not 5"),
        ({"tokens": "012345"}, "token ids, not '012345'"),
        ({"tokens": ["a"] * 6}, "not 'a'"),
        ({"start_token": "6"}, "not '6'"),
        ({"start_token": 2.5}, "not 2.5"),
        ({"start_marker": "yes"}, "not 'yes'"),
        ({"out": 3}, "out must be text or a Path, not 3"),
    ],
)
def test_load(settings: dict[str, Any], quoted: str) -> None:
    with pytest.raises(st.StatetraceError, match=quoted):
        st.load(FOLDER, **({"group": "S3", "length": 14} | settings))


def test_a_folder_that_is_missing_or_a_study(tmp_path: Path) -> None:
    with pytest.raises(st.StatetraceError, match="there is no folder 'runs/none'"):
        st.load("runs/none")
    (tmp_path / "bare").mkdir()
    with pytest.raises(st.StatetraceError, match=r"did you mean '.*/bare'\?.*length=14\)"):
        st.load(tmp_path / "baer")
    (tmp_path / "cells" / "gpt2_seed-0").mkdir(parents=True)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(st.StatetraceError, match=r"is a study; .*gpt2_seed-0"):
        st.load(tmp_path)


def test_integers_of_numpy_are_accepted_and_saved(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"length": np.int64(8), "tokens": np.arange(6)}
    model = st.load(FOLDER, group="S3", start_marker=False, out=tmp_path / "run", **settings)
    assert model.length == 8
    assert model.run is not None
    assert model.run.info["foreign"]["tokens"] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda m: m.analyze(3), "not 3"),
        (lambda m: m.analyze([None]), "None"),
        (lambda m: m.analyze("patchin"), "unknown lens 'patchin'; did you mean 'patching'"),
        (lambda m: m.analyze("patching", pair=5), "'pair'.* did you mean 'pairs'"),
        (lambda m: m.analyze("patching", patching=3), "dictionary of settings, not 3"),
        (lambda m: m.analyze("patching", seed=-1), "seed -1"),
        (lambda m: m.patch("213", "123", sites=3), "sites = 3"),
        (lambda m: m.patch("213", "123", sites=["x"]), r"sites = \['x'\]"),
        (lambda m: m.look("213", source="123", patches=[(0, 0)]), r"patches = \[\(0, 0\)\]"),
        (lambda m: m.look("213", source="123", patches=3), "patches = 3"),
        (lambda m: m.look("213", without=(1, 0)), r"without = \(1, 0\)"),
        (lambda m: m.look("213", without=[(1, "a")]), "without = .*such as"),
        (lambda m: m.ablate((1, 0)), r"heads = \(1, 0\)"),
        (lambda m: m.report(None), "path must be text or a Path, not None"),
        (lambda m: st.train(grop="S3"), "unknown setting 'grop'; did you mean 'group'"),
        (lambda m: st.load("zoo:s3-asociative"), "did you mean 's3-associative'"),
        (lambda m: st.train(callback=3), "callback must be a .*Callback, not 3"),
        (lambda m: st.train(out="/dev/null/x", group="Z2", length=2, steps=1), "'/dev/null/x'"),
        (lambda m: st.train(out=FOLDER, group="S3", length=12), "holds checkpoints"),
        (lambda m: st.study("studies/toy", FOLDER), "already holds a checkpoint"),
        (lambda m: st.study("studies/toy", "x", jobs=0), "jobs 0 is too small"),
        (lambda m: st.study("studies/toy", "x", engine="loca"), "did you mean 'local'"),
        (lambda m: st.study("studies/toy", "x", on_update=3), "on_update must be a function"),
        (lambda m: st.train(3), "recipe must be text or a Path, not 3"),
        (lambda m: st.compile("associative", 3), "group 3 is not a group"),
        (lambda m: st.compile(noise="x"), "noise must be a number, not 'x'"),
        (lambda m: st.compile(length=4, out="/dev/null/x"), "cannot write ./dev/null/x"),
        (lambda m: st.compile(sed=3), "unknown option 'sed'"),
        (lambda m: st.signatures("S3", "8"), "not '8'"),
        (lambda m: st.signatures("S3", 8, pairs=2.5), "not 2.5"),
        (lambda m: st.signatures("S3", 8, seed="x"), "seed x"),
        (lambda m: st.report(3, "report.html"), "not 3"),
        (lambda m: st.register("group", 3, m.group), "must be text, not 3"),
    ],
)
def test_calls(call: Callable[[st.TrackedModel], Any], quoted: str, model: st.TrackedModel) -> None:
    with pytest.raises(st.StatetraceError, match=quoted):
        call(model)
    assert not Path("x").exists()


def test_a_name_that_a_mapping_lacks(model: st.TrackedModel) -> None:
    results = model.analyze("generalization", sequences=20)
    signatures = st.signatures("Z3", length=4)
    for mapping, name in ((results, "patching"), (signatures, "asociative")):
        assert name not in mapping
        assert mapping.get(name) is None
        with pytest.raises(st.StatetraceError, match=f"'{name}'"):
            mapping[name]
    assert "parity-associative" not in signatures  # it does not exist for Z3


def test_actions_may_be_separated_by_spaces(model: st.TrackedModel) -> None:
    assert model.look("213 132").answer() == model.look("213,132").answer()


def test_signatures_show_themselves(model: st.TrackedModel) -> None:
    assert "all" in repr(st.signatures("Z3", length=4).plot())
    assert "opposite parity" in repr(st.signatures("S3", length=4).plot())
    assert repr(st.signatures("S3", length=4)["associative"]).count("\n") == 0
    assert repr(model.patch("213", "123")).startswith("Patches(")


def test_public_names_alone_are_completed() -> None:
    assert {name for name in dir(st) if not name.startswith("_")} == set(st.__all__)
