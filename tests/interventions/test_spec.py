"""Which positions a column overwrites, and what a grid refuses."""

from typing import Any

import pytest

from statetrace.errors import StatetraceError
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from tests.interventions.cases import SPECS


@pytest.mark.parametrize(
    ("spec", "offset", "windows"),
    [
        (GridSpec("prefix"), 0, ((0, 1), (0, 2), (0, 3), (0, 4))),
        (GridSpec("prefix"), 1, ((0, 2), (0, 3), (0, 4))),
        (GridSpec("suffix"), 0, ((0, 3), (1, 3), (2, 3))),
        (GridSpec("suffix"), 1, ((1, 3), (2, 3))),
        (GridSpec("window"), 0, ((0, 1), (1, 2), (2, 3), (3, 4))),
        (GridSpec("window"), 1, ((1, 2), (2, 3), (3, 4))),
        (GridSpec("window", window=3), 0, ((0, 3), (1, 4))),
        (GridSpec("window", window=3), 1, ((1, 4),)),
    ],
)
def test_columns(spec, offset, windows):
    assert spec.windows(4, offset) == windows


def test_names_and_specs_are_inverse():
    named = [spec for spec in SPECS.values() if isinstance(spec.rows, str)]
    assert [GridSpec.named(spec.name) for spec in named] == named
    assert GridSpec.named("window3-deletion-head") == GridSpec("window", "deletion", "head", 3)
    assert GridSpec.named("suffix-deletion") == GridSpec("suffix", "deletion", "resid")
    some = GridSpec(rows=(Site("head", 1, 2), Site("resid", 3)))
    assert some.name == "prefix-substitution-head_1.2+resid_3"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"where": "middle"},
            "where 'middle' is unknown; use one of prefix, suffix, window, context",
        ),
        ({"what": "noise"}, "what 'noise' is unknown; use one of substitution, deletion"),
        ({"rows": "heads"}, "rows 'heads' is unknown; did you mean 'head'"),
        ({"rows": ()}, "rows is empty"),
        ({"where": "window", "window": 0}, "window 0 is too small"),
        ({"window": 2}, "window 2 requires where = 'window', not 'prefix'"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(StatetraceError, match=message):
        GridSpec(**fields)


def test_names_that_are_none():
    for name in ("", "prefix", "prefix deletion", "3-deletion"):
        with pytest.raises(
            StatetraceError, match="is not the name of a grid; write WHERE-WHAT-ROWS"
        ):
            GridSpec.named(name)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (GridSpec("suffix"), "1 actions are too few for a suffix"),
        (GridSpec("window", window=2), "1 actions are too few for a window of 2"),
    ],
)
def test_sequences_too_short_for_any_column(spec, message):
    with pytest.raises(StatetraceError, match=message):
        spec.windows(2, 1)
