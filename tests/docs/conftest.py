import pytest

from statetrace import plugins
from tests.explorer.conftest import probes_are_fitted_once

__all__ = ["probes_are_fitted_once"]


@pytest.fixture(autouse=True)
def registry():
    """What a page registers is forgotten after it."""
    before = dict(plugins._registered)
    yield
    plugins._registered.clear()
    plugins._registered.update(before)
