"""Recipes that a machine cannot hold are refused before anything is allocated."""

import pytest

from statetrace.config.memory import check_memory
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from tests.training.conftest import toy

GB = 10**9


@pytest.mark.parametrize(
    ("settings", "quoted"),
    [
        ({"length": 999_999_999}, "999999999"),
        ({"layers": 10**8}, "100000000 layers"),
        ({"width": 10**9, "heads": 1}, "width 1000000000"),
        ({"batch": 10**12}, "a batch of 1000000000000"),
        ({"sequences": 10**12}, "1,000,000,000,000 sequences"),
    ],
)
def test_huge_numbers_are_refused(settings, quoted):
    with pytest.raises(StatetraceError, match=f"{quoted}.*this machine has 24 GB"):
        check_memory(toy(**settings), most=24 * GB)


def test_the_papers_recipes_fit_into_a_small_machine():
    check_memory(toy(), most=GB)
    check_memory(Recipe().override({"model": "gpt2", "length": 100}), most=4 * GB)
