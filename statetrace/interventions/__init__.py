"""Capture and overwrite the activations of a forward pass; patch grids."""

from statetrace.interventions.capture import Edit, capture, capturing, overwrite
from statetrace.interventions.grid import Grid, PatchGrids, patch_grid
from statetrace.interventions.sites import KINDS, Site, sites_of
from statetrace.interventions.spec import WHAT, WHERE, GridSpec
from statetrace.models.predict import evaluating

__all__ = [
    "KINDS",
    "WHAT",
    "WHERE",
    "Edit",
    "Grid",
    "GridSpec",
    "PatchGrids",
    "Site",
    "capture",
    "capturing",
    "evaluating",
    "overwrite",
    "patch_grid",
    "sites_of",
]
