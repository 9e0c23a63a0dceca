"""Files that cannot be used are refused in a few words; everything else is read as it is."""

import contextlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.files import parse_json, read_json, read_toml

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
