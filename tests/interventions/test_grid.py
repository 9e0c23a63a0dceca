"""The patch grid against one plain forward pass per cell."""

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions import GridSpec, Site, patch_grid
from statetrace.interventions import fast as fast_road
from tests.interventions.cases import LENGTH, SPECS, model_named, one_cell_at_a_time, pairs

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
FAMILIES = ("gpt2", "pythia", "pythia-sequential", "llama-grouped")


@pytest.mark.parametrize("corrupt_at", [(0,), (1,), (3,), (LENGTH - 1,), (2, 4)], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_grid_is_exact(name, corrupt_at):
    dtype = torch.float32 if name.startswith("llama") else torch.float64  # its norms are float32
    model = model_named(name, dtype)
    clean, corrupted = pairs(corrupt_at)
    found = patch_grid(model, clean, corrupted, tuple(SPECS.values()), road="fast")
    for spec, grid in zip(SPECS.values(), found.grids, strict=True):
        if spec.what == "deletion" and corrupt_at != (0,):
            continue  # the corrupted input has no part in it
        expected = one_cell_at_a_time(model, clean, corrupted, spec)
        error = (grid.values - expected).abs().amax((1, 2, 3))
        assert (error <= TOLERANCE[dtype]).all(), (spec.name, error)
