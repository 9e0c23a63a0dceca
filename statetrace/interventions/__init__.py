"""Capture and overwrite the activations of a forward pass; patch grids."""
