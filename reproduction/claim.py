"""Claims of the paper: blocks of reproduction/claims/*.toml, measured and judged.

    [[claim]]
    id = 15
    says = "PAA: once parity is known, the state probe is at 1/3"
    where = "Figure 10, App. C.2"
    section = "probes"                        # of sections.toml, where its tests are shown

    [[claim.test]]
    label = "probability of the true state"
    measure = "probing.probability_once_known"
    args = { known = "parity", target = "state" }
    models = { mechanism = "PAA", size = "paper" }
    rule = { contains = 0.3333 }
    paper = "1/3"
    bound = "paper"                           # or "ours": can support a claim, not refute it
    fixed = "before"                          # or "after" the numbers were seen

Optional keys of a test: `small = true` for smaller models (with the label of another test they
share a row); `needed = true` for one without which the claim stays open even where results/ has no
such model; `aside = "by accuracy alone"` for one that is quoted beside the claim but does not
decide; `shown = false` for one that is not in its section. `why` says why a claim is untested. A
claim without tests needs a `status`, and may have a `finding`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reproduction.lens_model import LensModel
from reproduction.measures.registry import find
from reproduction.model_selection import Selection
from reproduction.rules import check_rule, supports
from reproduction.statistics import Number
from reproduction.tables import Missing, Row
from statetrace.errors import StatetraceError

FOLDER = Path(__file__).parent / "claims"
AGREES, DIFFERS, SMALL, UNTESTED = (
    "agrees", "differs at the paper's size", "small models only", "untested",
)  # fmt: skip
STATUSES = (AGREES, DIFFERS, SMALL, UNTESTED)
PASS, FAIL, OPEN, ABSENT = "pass", "fail", "open", "absent"
"""Outcomes of a test; absent: results/ has no such model."""
REFUTING = 3
"""Models that must fail before a number measured model by model refutes a claim."""


@dataclass(frozen=True)
class Check:
    """One measurement that supports a claim; see the module's example."""

    label: str
    measure: str
    models: dict[str, Any]
    rule: dict[str, Any]
    paper: str
    bound: str
    fixed: str
    args: dict[str, Any] = field(default_factory=dict)
    small: bool = False
    needed: bool = False
    aside: str = ""
    shown: bool = True

    def __post_init__(self) -> None:
        if self.bound not in ("paper", "ours") or self.fixed not in ("before", "after"):
            raise StatetraceError(
                f"test '{self.label}': bound is paper or ours, fixed is before or after"
            )
        check_rule(self.rule)
        find(self.measure, self.args)


@dataclass(frozen=True)
class Claim:
    id: int
    band: str
    says: str
    where: str
    section: str
    tests: tuple[Check, ...] = ()
    status: str = ""
    why: str = ""
    finding: str = ""

    def __post_init__(self) -> None:
        if self.status not in ("", *STATUSES) or bool(self.status) == bool(self.tests):
            raise StatetraceError(
                f"claim {self.id}: either tests, or a status from {', '.join(STATUSES)}"
            )


@dataclass(frozen=True)
class Outcome:
    """A test's numbers and what they decide.

    Attributes:
        numbers: (name of the model, number), a single unnamed one for a number over many models.
        passed: how many of them support the claim.
        subjects: the lens models or rows that were measured.
    """

    test: Check
    numbers: tuple[tuple[str, Number], ...]
    passed: int
    decision: str
    subjects: tuple[LensModel | Row, ...] = ()


@dataclass(frozen=True)
class Answer:
    claim: Claim
    status: str
    small: str
    outcomes: tuple[Outcome, ...]

    @property
    def after(self) -> bool:
        """Whether a rule that decides was fixed after its numbers were seen."""
        deciding = [
            o for o in self.outcomes if o.test.small == (self.status == SMALL) and o.numbers
        ]
        return any(outcome.test.fixed == "after" for outcome in deciding)


def load_claims(folder: Path = FOLDER) -> list[Claim]:
    """All claims by number."""
    claims = []
    for file in sorted(folder.glob("*.toml")):
        content = tomllib.loads(file.read_text())
        for block in content["claim"]:
            tests = tuple(Check(**test) for test in block.pop("test", ()))
            claims.append(Claim(band=content["band"], tests=tests, **block))
    claims.sort(key=lambda claim: claim.id)
    if len({claim.id for claim in claims}) < len(claims):
        raise StatetraceError(f"two claims of '{folder}' have the same id")
    return claims


def run_test(test: Check, selection: Selection) -> Outcome:
    measure = find(test.measure, test.args)
    if measure.kind == "rows":
        rows = selection.rows(test.models)
        try:
            return _over(test, measure.function(rows, **test.args), tuple(rows))
        except Missing:
            return Outcome(test, (), 0, ABSENT)
    models = selection.lens_models(test.models, measure.lens)
    if measure.kind == "together":
        if not models:
            return Outcome(test, (), 0, ABSENT)
        return _over(test, measure.function(models, **test.args), tuple(models))
    measured = []
    for model in models:
        try:
            measured.append((model, measure.function(model, **test.args)))
        except Missing:
            continue
    return _each(test, measured)


def _over(test: Check, number: Number, subjects: tuple[Any, ...]) -> Outcome:
    supported = supports(test.rule, number)
    decision = OPEN if supported is None else PASS if supported else FAIL
    if decision == FAIL and test.bound == "ours" and not test.small:
        decision = OPEN
    return Outcome(test, (("", number),), int(supported is True), decision, subjects)


def _each(test: Check, measured: list[tuple[LensModel, Number]]) -> Outcome:
    """Most models decide; a refutation takes three of them and the paper's own bound."""
    if not measured:
        return Outcome(test, (), 0, ABSENT)
    results = [supports(test.rule, number) for _, number in measured]
    passed, failed, n = results.count(True), results.count(False), len(results)
    refutes = test.bound == "paper" and n >= REFUTING
    decision = PASS if 2 * passed > n else FAIL if 2 * failed > n and refutes else OPEN
    numbers = tuple((model.name, number) for model, number in measured)
    return Outcome(test, numbers, passed, decision, tuple(model for model, _ in measured))


def answer(claim: Claim, selection: Selection) -> Answer:
    """A claim's status: by models of the paper's size where they decide, else by smaller ones."""
    outcomes = tuple(run_test(test, selection) for test in claim.tests)
    if claim.status:
        return Answer(claim, claim.status, "", outcomes)
    large, small = (
        {
            o.decision
            for o in outcomes
            if o.test.small == kind and not o.test.aside and (o.numbers or o.test.needed)
        }
        for kind in (False, True)
    )
    verdict = ""
    if small - {ABSENT}:
        verdict = "differ" if FAIL in small else "agree" if small == {PASS} else "inconclusive"
    if FAIL in large:
        return Answer(claim, DIFFERS, verdict, outcomes)
    if large == {PASS}:
        return Answer(claim, AGREES, verdict, outcomes)
    return Answer(claim, SMALL if verdict else UNTESTED, verdict, outcomes)


def small_size(outcome: Outcome) -> str:
    """The widths of small models, as "16–256", or "bundled"."""
    widths = sorted({about_subject(subject)["width"] for subject in outcome.subjects} - {None})
    ends = dict.fromkeys([*widths[:1], *widths[-1:]])
    return "–".join(str(int(width)) for width in ends) or "bundled"


def about_subject(subject: LensModel | Row) -> Row:
    if isinstance(subject, dict):
        return subject
    model, task = subject.recipe.get("model", {}), subject.recipe.get("task", {})
    return {
        "model": model.get("name"),
        "width": model.get("width"),
        "length": task.get("length"),
        "step": subject.step,
        "size": "paper" if subject.at_paper_size else "small",
    }
