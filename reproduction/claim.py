"""A claim of the paper: what it says, where, what answers it here, and when that agrees."""

from __future__ import annotations

import math
import posixpath
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproduction.measured import Measure, Measured
from reproduction.results import Missing, Results
from reproduction.rules import AGREES, DIFFERS, Rule, Unmeasured, judge
from statetrace.errors import StatetraceError

UNMEASURED = Unmeasured()


def unmeasured(found: Results) -> Measured:
    """Nothing in results/ speaks to it."""
    return Measured(None)


@dataclass(frozen=True)
class Claim:
    """One row of REPRODUCTION.md.

    Attributes:
        name: unique, and the anchor of its row.
        where: figure, table or section of the paper.
        says: the claim, in our words; `paper` is its number.
        recipe: the one that makes it at the paper's size.
        measure, rule: our number and what decides; a measure of one mechanism's model takes the
            best there is (model_selection.py).
        at_size: the same from a study of the paper's size: goes first as soon as it has a number.
        ours: whether the paper gives no number to compare with, so that the rule's is our choice.
        stand_in: the recipe of smaller models that were measured in its place; "" for none.
        note: where a difference is known: what was tried, what the cause may be.
        noted: the judgement the note was written for, and is printed with; "" for all.
        general: whether the note holds for models of any size; else it goes with stand-ins alone.
        note_at_size: the same where a model of the paper's size differs, or does not decide.
        picture: a name from pictures.py.
    """

    name: str
    where: str
    says: str
    paper: str
    recipe: str
    measure: Measure = unmeasured
    rule: Rule = UNMEASURED
    at_size: Measure = unmeasured
    ours: bool = False
    stand_in: str = ""
    note: str = ""
    noted: str = DIFFERS
    general: bool = False
    note_at_size: str = ""
    picture: str = ""


@dataclass(frozen=True)
class Answer:
    """A claim with what was measured and what that comes to.

    Attributes:
        beside: what smaller models say, where one of the paper's size has answered.
    """

    claim: Claim
    found: Measured
    judgement: str
    beside: Answer | None = None

    @property
    def small(self) -> bool:
        """Whether there is a number, and it is of models smaller than the paper's."""
        sized = bool(self.claim.stand_in or self.found.size)
        return self.found.value is not None and sized and not self.found.at_size

    @property
    def note(self) -> str:
        """What the claim has to say about this; "" for nothing."""
        claim = self.claim
        if self.found.at_size and self.judgement != AGREES and claim.note_at_size:
            return claim.note_at_size
        fits = claim.noted in ("", self.judgement) and (claim.general or not self.found.at_size)
        return claim.note if fits else ""


def answer(claim: Claim, found: Results) -> Answer:
    large = replace(_measure(claim.at_size, found), at_size=True)
    usual = _answer(claim, _measure(claim.measure, found))
    if large.value is None:
        return usual
    beside = usual if usual.found.value is not None else None
    return replace(_answer(claim, large), beside=beside)


def _answer(claim: Claim, measured: Measured) -> Answer:
    return Answer(claim, measured, judge(claim.rule, measured))


def _measure(measure: Measure, found: Results) -> Measured:
    """What it finds; nothing where there is nothing to read, or what there is makes no number."""
    try:
        measured = measure(found)
    except Missing:
        return Measured(None)
    known = measured.value is None or math.isfinite(measured.value)
    return measured if known else replace(measured, value=None, words="")


def size(root: Path, recipe: str) -> str:
    """How large a recipe's models are, by its file: "gpt2, 6 layers, width 128, S3, length 24"."""
    found = settings(root, recipe)
    parts = [_said(found.get("name", found.get("model", "")))]
    for key, word in (("layers", "layers"), ("width", "width")):
        if key in found:
            parts.append(
                f"{_said(found[key])} {word}" if key == "layers" else f"{word} {_said(found[key])}"
            )
    parts += [_said(found["group"]), f"length {_said(found['length'])}"]
    return ", ".join(part for part in parts if part)


def settings(root: Path, recipe: str) -> dict[str, Any]:
    """All settings of a recipe or study in one dictionary; what it is based on comes first."""
    file = root / recipe
    if not file.is_file():
        raise StatetraceError(f"there is no recipe '{recipe}'")
    read = tomllib.loads(file.read_text())
    found: dict[str, Any] = {}
    for before in (read[key] for key in ("base", "extends") if key in read):
        found |= settings(root, posixpath.join(posixpath.dirname(recipe), before))
    for table in ("task", "model", "training", "evaluation", "settings", "grid"):
        found |= read.get(table, {})
    return found


def _said(value: Any) -> str:
    return " / ".join(map(str, value)) if isinstance(value, list) else str(value)
