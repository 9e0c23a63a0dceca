"""A model that is read in another way than it was built for is recognised."""

from dataclasses import replace

import numpy as np
import pytest

import statetrace as st
from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import group
from statetrace.lenses.compiled import task_of
from statetrace.mechanisms.misreading import hint, isomorphism, solved
from statetrace.models import ModelSpec, build
from statetrace.models.compiled import compile_model
from statetrace.tasks.vocabulary import Vocabulary

SPEC = CompileSpec(algorithm="associative", length=8)
SHUFFLED = (3, 1, 0, 2, 5, 4)


def test_a_model_that_is_read_correctly_gets_no_hint():
    task = task_of(SPEC)
    assert solved(compile_model(SPEC), task) == 8
    assert hint(compile_model(SPEC), task) is None


def test_a_model_that_has_learned_nothing_gets_no_hint():
    model = build(ModelSpec("gpt2", layers=2, width=16, heads=2), 7, 20, seed=0)
    assert hint(model, task_of(SPEC)) is None


@pytest.mark.parametrize(
    ("elements", "marker", "notation", "expected"),
    [
        (range(6), 6, "receives", ["--notation moves"]),
        (range(6), None, "moves", ["--start-token 6"]),
        (range(6), None, "receives", ["--notation moves", "--start-token 6"]),
        (SHUFFLED, 6, "moves", ["--tokens"]),
        (SHUFFLED, None, "moves", ["--tokens", "--start-token 6"]),
    ],
)
def test_other_readings_are_found(elements, marker, notation, expected):
    vocabulary = Vocabulary(tuple(elements), marker)
    read = replace(task_of(SPEC), vocabulary=vocabulary, group=group("S3", notation))
    model = compile_model(SPEC)
    assert solved(model, read) < 4
    sentence = hint(model, read)
    assert "solves 8 of 8" in sentence
    assert all(option in sentence for option in expected)


def test_a_notation_is_simpler_than_a_list_of_tokens():
    spec = replace(SPEC, notation="receives")
    read = replace(task_of(spec), group=group("S3", "moves"))
    assert hint(compile_model(spec), read).startswith("with --notation receives the model solves 8")


def test_tokens_after_one_for_padding_and_one_for_the_start():
    model = compile_model(SPEC)
    table = model.get_input_embeddings().weight.data
    order = [0, 6, *range(6)]  # padding has the embedding of some element
    model.resize_token_embeddings(8, mean_resizing=False)
    model.get_input_embeddings().weight.data = table[order]
    if model.lm_head.weight is not model.get_input_embeddings().weight:
        model.lm_head.weight.data = model.lm_head.weight.data[order]
    read = replace(task_of(SPEC), vocabulary=Vocabulary(tuple(range(6)), 6))
    assert solved(model, read) < 4
    assert "--tokens 2,3,4,5,6,7 --start-token 1 the model solves 8 of 8" in hint(model, read)


def test_a_marker_that_the_model_was_trained_without():
    spec = replace(SPEC, start_marker=False)
    read = replace(task_of(spec), vocabulary=Vocabulary((0, 1, 2, 3, 4, 5), None))
    assert hint(compile_model(spec), read) is None
    elements = (1, 2, 3, 4, 5, 0)  # a cycle of the names is no renaming of S3
    assert "--tokens" in hint(
        compile_model(spec), replace(read, vocabulary=Vocabulary(elements, None))
    )


@pytest.mark.parametrize("name", ["S3", "D4", "A4", "Z2xZ2xZ3"])
def test_tables_that_differ_in_names_alone(name):
    table = group(name).table.astype(np.int64)
    names = np.random.default_rng(0).permutation(len(table))
    other = np.empty_like(table)
    other[names[:, None], names[None]] = names[table]
    images = isomorphism(table, other)
    assert (other[images[:, None], images[None]] == images[table]).all()


def test_tables_of_different_groups():
    assert isomorphism(*(group(name).table.astype(np.int64) for name in ("S3", "Z6"))) is None
    assert isomorphism(group("S3").table.astype(np.int64), np.zeros((6, 6), dtype=np.int64)) is None


def test_the_verdict_has_the_hint():
    misread = st.load(compile_model(SPEC), group="S3", length=8, notation="receives")
    judged = misread.verdict()
    assert judged.mechanism == "unlearned"
    assert "--notation moves" in judged.hint
    assert judged.to_dict()["hint"] == judged.hint
    assert "hint" in repr(judged)
