"""Numbers from the training logs of models that were looked at one by one."""

from __future__ import annotations

from collections.abc import Callable

from reproduction.measured import Measure, Measured, share_of
from reproduction.model_selection import large_ones, short, sized
from reproduction.results import Results, lens_file


def leads(found: Results, model: str) -> dict[str, float]:
    """Of models of the paper's size that have a mechanism, by folder: how far parity ran ahead of
    the state in training, of what it could."""
    return {
        name: float(found.json(_log(name))["summary"]["lead"]["parity"]["share"])
        for name in large_ones(found, model, "dynamics.json")
    }


def share_of_leads(model: str, test: Callable[[float], bool]) -> Measure:
    """Of these models, the share whose lead passes a test."""

    def measure(found: Results) -> Measured:
        there = leads(found, model)
        by = ", ".join(f"{lead:.0%} ({short(found, name)})" for name, lead in there.items())
        passed = sum(map(test, there.values()))
        words = f"it led by {by}" if there else ""
        made = share_of(passed, len(there), "models", tuple(map(_log, there)), words)
        return sized(found, made, list(there))

    return measure


def _log(name: str) -> str:
    return lens_file(name, "dynamics", "json")
