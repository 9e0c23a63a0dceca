"""Every setting of every lens has a help text, so that commands can list them."""

import dataclasses

import pytest

from statetrace.interventions import GridSpec
from statetrace.lenses.registry import BUILTIN


@pytest.mark.parametrize("spec", [*(lens.spec for lens in BUILTIN.values()), GridSpec])
def test_every_setting_has_a_help_text(spec):
    for field in dataclasses.fields(spec):
        text = field.metadata["help"]
        assert text.endswith(".")
        assert len(text.split()) > 1
