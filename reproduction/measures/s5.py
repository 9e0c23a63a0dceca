"""Numbers from models of S5: the paper has both mechanisms there too (Figures 2, 3, 5, 6 and 13).

Small models that were kept one by one (results/s5-...), and many of the study small-s5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from reproduction.measured import Measure, Measured, share_of
from reproduction.measures.evidence import taught
from reproduction.measures.models import cutoffs
from reproduction.measures.patching import apart
from reproduction.measures.probing import best_before_last
from reproduction.measures.studies import AA, PAA, judged, sizes
from reproduction.model_selection import S5_A, S5_P, first, sized
from reproduction.results import Missing, Results, Row, lens_file, study_file

ALIKE, UNLIKE = 0.1, 0.3
"""Distances of same- and opposite-parity maps, as for S3."""
LOCKSTEP = 0.1
"""How far parity may lead, of what it could, as for S3."""

Test = Callable[[float], bool]
RowTest = Callable[[Row], bool]
Number = Callable[[Results, str], tuple[float, str]]
"""A model's number with words for it, from its folder."""


def untaught(number: Number) -> Number:
    """The same of models that were not taught parity: it is no wonder if others have it."""

    def of(found: Results, name: str) -> tuple[float, str]:
        if taught(found.json(f"results/{name}/run.json")):
            raise Missing(f"'{name}' was taught parity")
        return number(found, name)

    return of


def kinds(file: str, number: Number, aa: Test, paa: Test, among: str = "") -> Measure:
    """How many of the two mechanisms show in a model that is said to have it; `among` says which
    models the number asks for."""

    def measure(found: Results) -> Measured:
        shown, names, words = _look(found, number, aa, paa, among)
        if not names:
            return Measured(None)
        made = Measured(shown, len(names), "models", unit="mechanisms", words=words,
                        sources=_files(names, file))  # fmt: skip
        return sized(found, made, names)

    return measure


def share_of_kept(file: str, number: Number, aa: Test, paa: Test) -> Measure:
    """The share of kept models, at most one of each mechanism, that show it."""

    def measure(found: Results) -> Measured:
        shown, names, words = _look(found, number, aa, paa)
        if not names:
            return Measured(None)
        made = share_of(shown, len(names), "models", _files(names, file), words)
        return sized(found, made, names)

    return measure


def share_of_studies(
    studies: tuple[str, ...], aa: RowTest, paa: RowTest, among: RowTest
) -> Measure:
    """Of all models of S5 of both mechanisms, the share that pass the test of their own."""

    def measure(found: Results) -> Measured:
        rows = [row for row in judged(found, studies, "verdict", group="S5") if among(row)]
        if not rows:
            return Measured(None)
        each = {
            called: [test(row) for row in rows if row["verdict"] == mechanism]
            for called, mechanism, test in (("AA", AA, aa), ("PAA", PAA, paa))
        }
        words = ", ".join(f"{called} {sum(here)} of {len(here)}" for called, here in each.items())
        sources = tuple(map(study_file, found.present(studies)))
        if not all(each.values()):
            return Measured(None, words=f"one mechanism alone: {words}", sources=sources)
        here = [one for tests in each.values() for one in tests]
        return share_of(sum(here), len(here), "models", sources, words, sizes(rows))

    return measure


def _look(
    found: Results, number: Number, aa: Test, paa: Test, among: str = ""
) -> tuple[int, list[str], str]:
    """How many of the best models of each mechanism pass its test, which those are, and words."""
    names, said, shown = [], [], 0
    for model, called, test in ((S5_A, "AA", aa), (S5_P, "PAA", paa)):
        try:
            name, (value, words) = first(found, model, lambda name: number(found, name))
        except Missing:
            said.append(f"no {called} model{among}")
            continue
        names.append(name)
        shown += test(value)
        said.append(f"{called} {words}")
    return shown, names, "; ".join(said)


def _files(names: list[str], file: str) -> tuple[str, ...]:
    return tuple(f"results/{name}/{file}" for name in names)


def by_patching(found: Results, name: str) -> tuple[float, str]:
    value = _value(apart(name)(found))
    return value, f"{value:.2f} between same- and opposite-parity maps"


def by_probing(found: Results, name: str) -> tuple[float, str]:
    measured = best_before_last(name, "parity")(found)
    return _value(measured), f"parity read {_value(measured):.0%} at the best layer before the last"


def by_cutoffs(found: Results, name: str) -> tuple[float, str]:
    measured = cutoffs(name)(found)
    return _value(measured), measured.words


def by_training(found: Results, name: str) -> tuple[float, str]:
    lead = found.json(lens_file(name, "dynamics", "json"))["summary"].get("lead", {})
    if "parity" not in lead:
        raise Missing(f"of '{name}' there is no lead of parity")
    return lead["parity"]["share"], f"parity led by {lead['parity']['share']:.0%} of what it could"


def clusters(found: Results) -> Measured:
    """Nothing that could be counted; in words, of what separates the states of a PAA model, the
    largest share that goes with where one object is, or what is in one place; deeper half alone."""
    name, rows = first(found, S5_P, lambda name: found.table(lens_file(name, "geometry")))
    rows = [row for row in rows if row["value"] is not None]
    last = max((row["layer"] for row in rows), default=0)
    rows = [r for r in rows if r["measure"] == "arrangement_share" and r["layer"] * 2 > last]
    if not rows:
        raise Missing(f"of '{name}' there are no shares of arrangements")
    most = max(rows, key=lambda row: float(row["value"]))
    words = (
        f"not counted; {most['name']} explains {most['value']:.0%} of what separates {most['n']} "
        f"states (layer {most['layer']} of {last}, {most['null']:.1%} by chance), more than any "
        f"other object or place"
    )
    made = Measured(None, words=words, sources=(lens_file(name, "geometry"),))
    return sized(found, made, [name])


def _value(measured: Measured) -> float:
    if measured.value is None or not math.isfinite(measured.value):
        raise Missing(measured.words or "nothing measured")
    return measured.value
