"""Unique sequences: distinct, deterministic, uniform, and their states are the products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.tasks.sequences import Sequences, unique_sequences

GROUPS = ["S3", "S5", "A4", "Z2", "D5", "Z300"]  # Z300 does not fit a byte


def distinct(sequences: Sequences) -> int:
    return len(np.unique(sequences.actions, axis=0))


@given(st.sampled_from(GROUPS), st.integers(1, 12), st.integers(1, 400), st.integers(0, 99))
@settings(max_examples=60)
def test_rows_are_distinct_and_states_are_products(name, length, n, seed):
    of = group(name)
    n = min(n, of.order**length)
    drawn = unique_sequences(of, n, length, seed)
    assert drawn.actions.shape == drawn.states.shape == (n, length)
    assert distinct(drawn) == n
    for row in range(0, n, max(1, n // 5)):
        for t in range(length):
            assert drawn.states[row, t] == of.product(drawn.actions[row, : t + 1].tolist())


def test_scan_crosses_chunk_borders(monkeypatch):
    whole = unique_sequences(group("S4"), 1000, 9, seed=3)
    monkeypatch.setattr("statetrace.tasks.sequences.CHUNK", 7)
    pieces = unique_sequences(group("S4"), 1000, 9, seed=3)
    assert np.array_equal(whole.actions, pieces.actions)
    assert np.array_equal(whole.states, pieces.states)


def test_the_seed_decides():
    s3 = group("S3")
    first, same, other = (unique_sequences(s3, 500, 10, seed).actions for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n", [36, 35])
def test_all_there_are_can_be_had(n):
    assert distinct(unique_sequences(group("S3"), n, 2, seed=0)) == n


def test_duplicates_are_drawn_again():
    # 6**6 = 46,656 sequences, 10,000 wanted: a first draw repeats about a thousand of them
    assert distinct(unique_sequences(group("S3"), 10_000, 6, seed=0)) == 10_000


def test_sampling_is_uniform():
    """Of the 36 sequences of length 2, each is first equally often (chi-squared, 35 degrees)."""
    firsts = [tuple(unique_sequences(group("S3"), 5, 2, seed).actions[0]) for seed in range(3600)]
    _, counts = np.unique(firsts, axis=0, return_counts=True)
    assert len(counts) == 36
    assert ((counts - 100) ** 2 / 100).sum() < 75  # p < 1e-4 beyond


def test_more_than_exist_names_the_number_there_are():
    with pytest.raises(StatetraceError, match=r"only 216 different .* length 3 .* 1,000"):
        unique_sequences(group("S3"), 1000, 3, seed=0)


@pytest.mark.parametrize(("n", "length", "quoted"), [(0, 3, "0 sequences"), (5, 0, "length 0")])
def test_nonsense_is_quoted(n, length, quoted):
    with pytest.raises(StatetraceError, match=quoted):
        unique_sequences(group("S3"), n, length, seed=0)


def test_restricted_actions():
    s4 = group("S4")
    swaps = s4.generators("transpositions")
    drawn = unique_sequences(s4, 300, 8, 0, swaps)
    assert set(drawn.actions.ravel().tolist()) == set(swaps)
    assert set(drawn.states[:, 0].tolist()) <= set(swaps)
    with pytest.raises(
        StatetraceError, match="only 36 different sequences of length 2 over 6 actions"
    ):
        unique_sequences(s4, 37, 2, 0, swaps)


def test_disk_round_trip(tmp_path):
    s5 = group("S5")
    drawn = unique_sequences(s5, 200, 7, seed=4)
    drawn.save(tmp_path / "data", s5)
    read = Sequences.load(tmp_path / "data", s5)
    assert np.array_equal(read.actions, drawn.actions)
    assert np.array_equal(read.states, drawn.states)
    with pytest.raises(StatetraceError, match="S5 in notation 'moves', not of S3"):
        Sequences.load(tmp_path / "data", group("S3"))


def one_state_changed(file):
    states = np.load(file)
    states[3, 2] = (states[3, 2] + 1) % 6
    np.save(file, states)


def cut_off(file):
    file.write_bytes(file.read_bytes()[:200])


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("states.npy", cut_off, "length"),
        ("states.npy", lambda file: file.write_bytes(b""), "EOF"),
        ("actions.npy", lambda file: file.write_bytes(b"PK\3\4 not at all"), "magic"),
        (
            "states.npy",
            lambda file: np.save(file, np.zeros((4, 7), np.uint8)),
            "4 x 7 elements, but .* 20 x 7",
        ),
        ("actions.npy", lambda file: np.save(file, np.zeros(9, np.uint8)), r"shape \(9,\)"),
        ("actions.npy", lambda file: np.save(file, np.zeros((20, 7))), "float64"),
        (
            "actions.npy",
            lambda file: np.save(file, np.full((20, 7), 6, np.uint8)),
            "6 is not an",
        ),
        ("states.npy", one_state_changed, "row 3 is not the products of the actions"),
        ("sequences.json", lambda file: file.write_text('{"group"'), "delimiter"),
        ("sequences.json", lambda file: file.write_text("{}"), "group"),
        ("sequences.json", lambda file: file.write_text("[]"), "not a JSON object"),
    ],
)
def test_damaged_data_is_named(tmp_path, name, damage, why):
    s3 = group("S3")
    unique_sequences(s3, 20, 7, seed=4).save(tmp_path, s3)
    damage(tmp_path / name)
    with pytest.raises(StatetraceError, match=rf"{name} is damaged \(.*{why}.*`statetrace data`"):
        Sequences.load(tmp_path, s3)


def test_cut_drops_rows_that_became_equal():
    drawn = unique_sequences(group("S3"), 1000, 6, seed=0)
    short = drawn.cut(2)
    assert len(short) == distinct(short) == 36
    assert short.length == 2
    with pytest.raises(StatetraceError, match="length 7"):
        drawn.cut(7)
