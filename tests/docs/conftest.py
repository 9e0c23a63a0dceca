import pytest

from statetrace import plugins


@pytest.fixture(autouse=True)
def registry():
    """What a page registers is forgotten after it."""
    before = dict(plugins._registered)
    yield
    plugins._registered.clear()
    plugins._registered.update(before)
