"""The glossary covers what the package names, and refers only to terms that it has."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.glossary import define, find, terms
from statetrace.lenses.registry import BUILTIN
from statetrace.mechanisms.algorithms import ALGORITHMS


def test_every_algorithm_lens_and_verdict_is_defined():
    assert all(define(name) for name in (*ALGORITHMS, *BUILTIN, "mixed", "unlearned", "confidence"))


@pytest.mark.parametrize("term", terms().values(), ids=lambda term: term.name)
def test_a_definition_is_one_sentence_and_its_references_exist(term):
    assert not re.search(r"[.!?]( |$)", term.markdown)
    for name in re.findall(r"\*([^*]+)\*", term.markdown + term.more):
        assert find(name) is not term


def test_terms_are_found_in_any_case_and_in_the_plural():
    assert find("Parity  Heads") is terms()["parity head"]
    assert find("nld") is terms()["NLD"]
    with pytest.raises(StatetraceError, match="did you mean 'cutoff'"):
        find("cutof")


def test_a_definition_is_one_line_in_a_pipe():
    lines = CliRunner().invoke(app, ["glossary"]).stdout.splitlines()
    longest = max((entry.definition for entry in terms().values()), key=len)
    assert any(longest in line for line in lines)
