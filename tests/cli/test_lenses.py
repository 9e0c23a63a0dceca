"""`statetrace lenses` lists every lens with every setting, from the specs themselves."""

import dataclasses

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.lenses.registry import LENSES


def test_all_lenses_are_listed():
    done = CliRunner().invoke(app, ["lenses"])
    assert [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "] == list(LENSES)


@pytest.mark.parametrize("lens", ["patching", "probing"])
def test_all_settings_of_a_lens_are_listed(lens):
    done = CliRunner().invoke(app, ["lenses", lens])
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    assert listed >= {field.name for field in dataclasses.fields(LENSES[lens].spec)}


def test_a_misspelt_lens_is_quoted():
    done = CliRunner().invoke(app, ["lenses", "patchin"])
    assert isinstance(done.exception, StatetraceError)
    assert "'patchin'" in str(done.exception)
    assert "'patching'" in str(done.exception)
