"""The examples in docstrings of the public names."""

import doctest

import pytest

import statetrace
from statetrace import api, groups


@pytest.mark.parametrize("module", [statetrace, api, groups], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried.failed == 0


def test_every_public_function_has_a_docstring():
    for name in statetrace.__all__:
        assert getattr(statetrace, name).__doc__, name
