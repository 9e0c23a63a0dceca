"""Results that come back as they were saved, and sentences about those that do not."""

from pathlib import Path

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses.result import LensResult, command


@pytest.fixture
def lenses(tmp_path):
    folder = tmp_path / "run" / "lenses"
    made = LensResult("depth", {"pairs": 3}, {"n": [1, 2]}, {"a": np.arange(3)}, {"x": 1}, ("ho",))
    made.save(folder)
    return folder


def test_it_comes_back(lenses):
    result = LensResult.load(lenses, "depth")
    assert (result.spec, result.summary, result.notes) == ({"pairs": 3}, {"x": 1}, ("ho",))
    assert result.rows() == [{"n": 1}, {"n": 2}]
    assert result.arrays["a"].tolist() == [0, 1, 2]
    with pytest.raises(StatetraceError, match="has no result of the lens 'patching'"):
        LensResult.load(lenses, "patching")


@pytest.mark.parametrize(
    ("file", "content", "trouble"),
    [
        ("depth.json", b'{"lens": "dep', r"is damaged \(Unterminated string"),
        ("depth.json", b"{}", r"is damaged \(it has no 'spec'\)"),
        ("depth.json", b"[]", r"is damaged \(not a JSON object\)"),
        ("depth.json", b"\xff\xfe", r"is damaged \(.*decode"),
        ("depth.parquet", b"PAR1", r"is damaged \(it does not match its checksum"),
        ("depth.parquet", None, "is missing"),
        ("depth.safetensors", b"\0", r"is damaged \(it does not match its checksum"),
        ("depth.safetensors", None, "is missing"),
    ],
)
def test_damage_is_one_sentence(lenses, file, content, trouble):
    if content is None:
        (lenses / file).unlink()
    else:
        (lenses / file).write_bytes(content)
    with pytest.raises(StatetraceError, match=trouble) as caught:
        LensResult.load(lenses, "depth")
    message = str(caught.value)
    assert message.startswith(f"'{lenses / file}' ")
    assert message.endswith(f"; `statetrace analyze {lenses.parent} --only depth` recomputes it")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("runs/a/lenses", "statetrace analyze runs/a --only depth"),
        ("runs/a b/lenses", "statetrace analyze 'runs/a b' --only depth"),
        ("r/lenses/step-8", "statetrace analyze r --only depth --checkpoint 8"),
        ("r/lenses/length-4", "statetrace analyze r --only depth --at-length 4"),
        (
            "lenses/r/lenses/step-8/length-4",
            "statetrace analyze lenses/r --only depth --checkpoint 8 --at-length 4",
        ),
        ("lenses", "statetrace analyze . --only depth"),
    ],
)
def test_what_makes_a_result(folder, expected):
    assert command(Path(folder), "depth") == expected


def test_a_grid_has_a_row_per_site_and_a_column_per_position():
    cells = [("resid", layer, None, position) for layer in (0, 1) for position in (0, 1, 2)]
    cells += [("head", 1, head, position) for head in (0, 1) for position in (0, 1, 2)]
    columns = dict(
        zip(("kind", "layer", "head", "position"), zip(*cells, strict=True), strict=True)
    )
    columns |= {"split": ["all"] * 12, "mean": [float(n) for n in range(11)] + [None]}
    result = LensResult("patching", {}, columns)
    assert result.grid(kind="resid", split="all").tolist() == [[0, 1, 2], [3, 4, 5]]
    heads = result.grid(kind="head")
    assert heads[0].tolist() == [6, 7, 8]
    assert np.isnan(heads[1, 2])
    assert result.grid(head=None).shape == (2, 3)
    assert result.grid(split="same parity").size == 0
