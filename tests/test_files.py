"""Files that cannot be used are refused in a few words; everything else is read as it is."""

import contextlib
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.files import (
    SEAL,
    WriteError,
    parse_json,
    read_json,
    read_toml,
    write_json,
    write_text,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), PLAIN))
def test_what_json_writes_is_read(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@given(st.binary())
def test_any_bytes_are_read_or_refused(body):
    with contextlib.suppress(ValueError):
        assert isinstance(parse_json(body), dict)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[1]", "not a JSON object"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b"\xff", "decode"),
        (b" " * 3000, "3,000 bytes"),
    ],
)
def test_bad_content_is_refused(tmp_path, content, why):
    (tmp_path / "file").write_bytes(content)
    most = 2500 if why == "3,000 bytes" else 10**6
    with pytest.raises(ValueError, match=why):
        read_json(tmp_path / "file", most=most)


def test_anything_but_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "loop", "missing", "."):
        with pytest.raises((ValueError, OSError)):
            read_json(tmp_path / name)


def test_toml_is_bounded_too(tmp_path):
    (tmp_path / "file").write_text("a = " + "[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_toml(tmp_path / "file")


@given(st.dictionaries(st.text(), PLAIN), st.integers(0), st.integers(0, 7))
def test_a_flipped_bit_changes_nothing_silently(value, place, bit):
    value.pop(SEAL, None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.json"
        write_json(file, value)
        assert repr(read_json(file)) == repr(value)
        body = bytearray(file.read_bytes())
        body[place % len(body)] ^= 1 << bit
        file.write_bytes(body)
        with contextlib.suppress(ValueError):
            read = read_json(file)  # a layout may change, and the name of the checksum
            assert repr({key: read[key] for key in value}) == repr(value)
            assert len(read) - len(value) <= 1


def test_a_checksum_is_not_one_by_accident(tmp_path):
    """Content under that name is replaced by the checksum, and lists have none."""
    write_json(tmp_path / "file", {"a": (1, 2.5), SEAL: "mine"})
    assert read_json(tmp_path / "file") == {"a": [1, 2.5]}
    write_json(tmp_path / "list", [1, 2])
    assert json.loads((tmp_path / "list").read_text()) == [1, 2]


def test_a_file_that_cannot_be_written_stays(tmp_path, monkeypatch):
    file = tmp_path / "file"
    write_text(file, "old")
    monkeypatch.setattr(os, "fsync", lambda _: os.write(-1, b""))  # EBADF, as a full disk
    with pytest.raises(WriteError, match=r"cannot write '.*/file' \(.+\); free some space"):
        write_text(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
