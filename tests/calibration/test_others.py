"""The models that are none of the four algorithms, and what is known of them."""

import dataclasses

import pytest

from calibration import compiled, others
from statetrace.config.compile_spec import CompileSpec
from statetrace.mechanisms.algorithms import ALGORITHMS
from tests.models.compiled.cases import accuracy


def test_sixty_models_of_every_kind():
    specs = others.specs()
    strange = [spec for spec in specs if others.label(spec) not in ALGORITHMS]
    assert len(strange) >= 60
    assert specs == others.specs()
    assert not set(specs) & set(compiled.specs())
    for field in dataclasses.fields(CompileSpec):
        assert len({getattr(spec, field.name) for spec in strange}) > 1, field.name
    composed = {(s.group, s.length) for s in specs if others.label(s) == "composed-quotient"}
    assert {(of, n) for of in ("S3", "S4", "D4", "A4") for n in (8, 12, 16)} <= composed
    assert {s.share for s in specs if others.label(s) == "mixed"} == {0.1, 0.3, 0.5, 0.7, 0.9}


def test_labels_follow_the_circuit_that_is_read():
    inert = CompileSpec(algorithm="associative", second="parallel", share=0.0)
    assert others.label(inert) == "associative"
    assert others.label(dataclasses.replace(inert, share=0.1)) == "mixed"
    assert others.label(dataclasses.replace(inert, algorithm="strided")) == "other"


@pytest.mark.parametrize("number", [0, 29, 33, 41, 61, 67, 74, 79, 82])
def test_some_of_them_are_always_right(number):
    assert accuracy(others.specs()[number], random=100) == 1.0
