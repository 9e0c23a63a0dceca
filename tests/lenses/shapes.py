"""Shapes built by hand that the geometry tests look for."""

import numpy as np

from statetrace.groups import group
from statetrace.lenses.parts.prism import Pairings, pairings

S3 = pairings(group("S3"))


def place(
    spokes: np.ndarray, offsets: np.ndarray, pairing: int, among: Pairings = S3
) -> np.ndarray:
    """State means [S, D]: even state k at spokes[k], its partner offsets[k] further."""
    means = np.empty((2 * len(spokes), spokes.shape[1]))
    means[among.even] = spokes
    means[among.partners[pairing]] = spokes + offsets
    return means


def prism(pairing: int, height: float = 1.0, width: int = 3) -> np.ndarray:
    """An exact right prism over an equilateral triangle with spokes of length 1."""
    turns = 2 * np.pi * np.arange(3) / 3
    spokes = np.zeros((3, width))
    spokes[:, 0], spokes[:, 1] = np.cos(turns), np.sin(turns)
    return place(spokes, height * np.eye(width)[2], pairing)


def moved(means: np.ndarray, seed: int) -> np.ndarray:
    """Elsewhere, turned and scaled: nothing that a shape should depend on."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((means.shape[1], means.shape[1])))
    return rng.lognormal() * means @ turn + 10 * rng.standard_normal(means.shape[1])
