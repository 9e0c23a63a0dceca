import pytest

from tests.reports.made import make


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run with all lenses, a verdict and two checkpoints."""
    return make(tmp_path_factory.mktemp("runs") / "mine", steps=(300,))


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another one, by another algorithm."""
    return make(tmp_path_factory.mktemp("runs") / "theirs", "associative")
