"""Data sets in the format of the paper's published generator."""

import json

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.tasks.published import read_published
from statetrace.tasks.word_problem import word_problem

# position j receives object a[j]: the appendix' example, and a second story worked by hand
STORIES = [
    ("132 312 213", ["123", "132", "213", "123"]),
    ("231 231 321", ["123", "231", "312", "213"]),
]


def write(folder, stories, spell=lambda label: label):
    folder.mkdir()
    for number, (story, states) in enumerate(stories):
        record = {"story": story, "state_seq": [spell(state) for state in states]}
        (folder / f"story_{number}.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    "spell",
    [str, int, lambda s: [int(c) for c in s], lambda s: " ".join(s)],
    ids=["text", "number", "list", "spaced"],
)
def test_reads_every_spelling_of_a_state(tmp_path, spell):
    read = read_published(write(tmp_path / "d", STORIES, spell), group("S3", "receives"))
    labels = group("S3").labels
    assert [[labels[a] for a in row] for row in read.actions] == [s.split() for s, _ in STORIES]
    assert [[labels[s] for s in row] for row in read.states] == [s[1:] for _, s in STORIES]


def test_the_other_notation_is_refused_by_name(tmp_path):
    with pytest.raises(StatetraceError, match=r"notation 'moves'.*try notation 'receives'"):
        read_published(write(tmp_path / "d", STORIES), group("S3", "moves"))


@pytest.mark.parametrize(
    ("story", "states", "complaint"),
    [
        ("132", ["132", "123"], "the initial state is '132'"),
        ("132 312", ["123", "132"], "2 actions but 2 states"),
        ("132 999", ["123", "132", "123"], "'999' is not an element of S3"),
        ("", ["123"], "the story is empty"),
    ],
)
def test_bad_files_are_named(tmp_path, story, states, complaint):
    folder = write(tmp_path / "d", [(story, states)])
    with pytest.raises(StatetraceError, match=f"story_0.json.*{complaint}"):
        read_published(folder, group("S3", "receives"))


@pytest.mark.parametrize("text", ["{", "[]", '{"story": "123"}'])
def test_files_that_are_something_else(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(StatetraceError, match=r"x.json cannot be read .*state_seq"):
        read_published(tmp_path, group("S3", "receives"))


def test_a_task_uses_them(tmp_path):
    """Written with our own group, so that it holds enough; repeated stories count once."""
    task = word_problem("S3", 8, notation="receives")
    sample, labels = task.sample(60, seed=0), task.group.labels
    stories = [
        (" ".join(labels[a] for a in actions), ["123", *(labels[s] for s in states)])
        for actions, states in zip(sample.actions, sample.states, strict=True)
    ]
    folder = write(tmp_path / "d", stories + stories[:5])
    train, analysis = task.splits(None, 0.1, seed=0, folder=folder)
    assert len(train) + len(analysis) == 60
    assert np.array_equal(np.concatenate([train.actions, analysis.actions]), sample.actions)
    short, _ = task.at_length(4).splits(None, 0.1, seed=0, folder=folder)
    assert short.length == 4
    with pytest.raises(StatetraceError, match=r"holds only 60 unique .* 61"):
        task.splits(61, 0.1, seed=0, folder=folder)
    with pytest.raises(StatetraceError, match="holds no sequences"):
        task.splits(None, 0.1, seed=0, folder=tmp_path)
