"""The calibration page, and the numbers that the package quotes."""

from __future__ import annotations

import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration.fitting import UNDECIDED, UNLEARNED, judge, labeled, quality
from calibration.measuring import Row
from calibration.stability import flips
from statetrace.lenses.parts.intervals import wilson
from statetrace.mechanisms.mechanism_map import DECIDED, Weights, calibrated

Rows = Callable[[str], Sequence[Row]]

FRESH = Path(__file__).parent / "fresh.toml"

SETS = {
    "fitted: compiled": "compiled",
    "fitted: none or two of the algorithms": "others",
    "fitted: trained": "study",
    "fitted: trained, of results/": "trained",
    "fresh: compiled": "fresh-compiled",
    "fresh: none or two of the algorithms": "fresh-others",
    "fresh: trained": "fresh-study",
}
"""Name in the page -> file."""

EARLIER = "fresh: earlier checkpoints of the trained"
"""Of the same file as the fresh trained models, and no part of all fresh models."""


def measured(rows: Rows, weights: Weights | None) -> dict[str, Any]:
    """What weights.json holds."""
    weights = calibrated()[0] if weights is None else weights
    sets = {name: labeled(of_set(rows, name)) for name in (*SETS, EARLIER)}
    fresh = [row for name in SETS if name.startswith("fresh") for row in sets[name]]
    about = {name: quality(of, weights) for name, of in (sets | {"fresh: all": fresh}).items()}
    stable = {
        what: _flips(rows("stability"), changed, weights) for what, changed in CHANGES.items()
    }
    return {"weights": dict(weights), "measured": about, "stability": stable}


def of_set(rows: Rows, name: str) -> list[Row]:
    """Its models; trained ones at the last checkpoint that was measured, or at those before it."""
    models = rows("fresh-study" if name == EARLIER else SETS[name])
    last: dict[str, int] = {}
    for row in models:
        run, step = _run(row)
        last[run] = max(step, last.get(run, step))
    return [row for row in models if (last[_run(row)[0]] == _run(row)[1]) != (name == EARLIER)]


def _run(row: Row) -> tuple[str, int]:
    """A trained model's run and step; a compiled model is a run of its own."""
    run, _, step = row.get("name", str(row.get("number"))).partition("@")
    return run, int(step or 0)


HEADINGS = {"fresh: all": "All fresh models", "fresh: trained": "Fresh trained models"}
CHANGES = {
    "seed and length": ("seed", "length"),
    "seed alone": ("seed",),
    "length alone": ("length",),
}


def _flips(rows: Sequence[Row], changed: Sequence[str], weights: Weights) -> dict[str, Any]:
    """Flips among verdicts on one model that share the seed or length that is not varied."""
    same = [name for name in ("name", "seed", "length") if name not in changed]
    named = [row | {"name": ", ".join(str(row[key]) for key in same)} for row in rows]
    return flips(named, weights)


def page(rows: Rows, about: Mapping[str, Any]) -> str:
    numbers, weights = about["measured"], about["weights"]
    lines = [
        _HEAD,
        _answer(numbers, about["stability"]["seed and length"]),
        *_table(numbers),
        "",
        _SETS,
    ]
    lines += ["## Reliability", "", _RELIABILITY]
    for name in HEADINGS:
        lines += [f"{HEADINGS[name]}:", "", *_bins(numbers[name]["bins"]), ""]
    study = of_set(rows, "fresh: trained")
    trained = _TRAINED.format(planned=planned(), measured=len(study))
    lines += ["## Trained models", "", trained, *_by_label(study, weights)]
    lines += ["", _LIMITS, _KINDS, *_by_kind(study, weights)]
    lines += ["", "## Every mistake on fresh models", "", *_mistakes(rows, weights)]
    lines += ["", "## Stability", "", _STABILITY, "", *_stability(about["stability"])]
    lines += ["", "## `--fast`", "", *_fast(numbers)]
    return "\n".join(lines) + "\n"


def _answer(numbers: Mapping[str, Any], stable: Mapping[str, Any]) -> str:
    fresh, trained = numbers["fresh: all"], numbers["fresh: trained"]
    wrong, sure = fresh["wrong_above_0.95"]
    named, none = fresh["none_named_above_0.9"]
    parts = (
        f"**The most probable mechanism is correct for {fresh['right']:.1%} of the "
        f"{fresh['models']} fresh models (calibration error {fresh['calibration_error']:.3f}). For "
        f"the {trained['models']} labeled fresh models trained for the calibration it is correct "
        f"for {trained['right']:.1%}, at a mean confidence of {trained['confidence']:.2f}.**\n",
        f"- Of the {sure} fresh models with a confidence above 0.95, {wrong or 'none'} "
        f"{'is' if wrong < 2 else 'are'} wrong.",
        f"- Of the {none} fresh models labeled mixed or other, {named or 'none'} was given "
        "the name of an algorithm with a confidence above 0.9.",
        f"- A verdict below {DECIDED:g} is undecided. Of the {trained['models']} models, "
        f"{trained['named'][1]} are decided, {trained['named'][0]} of them correctly. For "
        f"{trained['undecided'][0]} of the {trained['undecided'][1]} others the correct mechanism "
        "is among those called possible.",
        f"- With other analysis seeds and lengths, {stable['flips']} of {stable['verdicts']:,} "
        "verdicts rule out the mechanism that most verdicts on the same model allow "
        f"({stable['decided_flips']} of them decided), and {stable['undecided']} are undecided.\n",
    )
    return "\n".join(_wrapped(part) for part in parts)


def planned() -> int:
    """Fresh models to be trained."""
    plan = tomllib.loads(FRESH.read_text())
    return len(plan["seeds"]) * len(plan["grid"]["shape"])


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 100, subsequent_indent=indent) + "\n" * text.endswith("\n")


def _stability(stable: Mapping[str, Any]) -> list[str]:
    lines = [
        "| varied | verdicts | flips | of these decided | undecided verdicts |",
        "|---|--:|--:|--:|--:|",
    ]
    for what, found in stable.items():
        lines.append(
            f"| {what} | {found['verdicts']} | {found['flips']} | {found['decided_flips']} | "
            f"{found['undecided']} |"
        )
    return lines


def _table(numbers: Mapping[str, Any]) -> list[str]:
    lines = [
        "| models | n | correct | mean confidence | calibration error | wrong above 0.95 | mixed "
        "or other, named an algorithm above 0.9 | decided | correct of the decided |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in numbers.items():
        if not row["models"]:
            continue
        wrong, sure = row["wrong_above_0.95"]
        named, none = row["none_named_above_0.9"]
        lines.append(
            f"| {name} | {row['models']} | {row['right']:.1%} | {row['confidence']:.2f} | "
            f"{row['calibration_error']:.3f} | {wrong} of {sure} | "
            + (f"{named} of {none} |" if none else "|")
            + f" {row['named'][1]} | {row['named'][0]} |"
        )
    return lines


def _bins(bins: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| confidence | n | correct | 95% interval | mean confidence |",
        "|---|--:|--:|---|--:|",
    ]
    for row in bins:
        low, high = wilson(row["correct"], row["models"])
        lines.append(
            f"| {row['from']:g} to {row['to']:g} | {row['models']} | "
            f"{row['correct'] / row['models']:.0%} | {float(low):.0%} to {float(high):.0%} | "
            f"{row['confidence']:.2f} |"
        )
    return lines


def _by_label(rows: Sequence[Row], weights: Weights) -> list[str]:
    lines = ["| label | models | most probable mechanism |", "|---|--:|---|"]
    for label in dict.fromkeys(sorted(row["label"] for row in rows)):
        verdicts = Counter(judge(row, weights)[0] for row in rows if row["label"] == label)
        listed = ", ".join(f"{name} {n}" for name, n in verdicts.most_common())
        lines.append(f"| {label} | {verdicts.total()} | {listed} |")
    return lines


def _by_kind(rows: Sequence[Row], weights: Weights) -> list[str]:
    lines = [
        "| models | n | with a label | correct | mean confidence | decided | correct of the "
        "decided | wrong above 0.95 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        values = sorted({shape(row)[kind] for row in rows}, key=_in_order)
        for value in values:
            of_kind = [row for row in rows if shape(row)[kind] == value]
            found = quality(labeled(of_kind), weights)
            lines.append(f"| {kind}: {value} | {len(of_kind)} | {_in_row(found)}")
    return lines


def _in_order(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdigit() else (0, value)


def _in_row(found: Mapping[str, Any]) -> str:
    if not found["models"]:
        return "0 | | | | | |"
    wrong, sure = found["wrong_above_0.95"]
    correct, decided = found["named"]
    return (
        f"{found['models']} | {found['right']:.0%} | {found['confidence']:.2f} | {decided} | "
        f"{correct} | {wrong} of {sure} |"
    )


KINDS = ("group", "length", "layers", "width", "model", "start marker", "training")


def shape(row: Row) -> dict[str, str]:
    """The kinds that a model of the study belongs to, from its name."""
    name = row["name"].split("/")[1].split("_seed")[0]
    group, length, model, layers, width, *rest = name.split("-", 5)
    marker, stage = ("no", "") if rest == ["no-marker"] else ("yes", "".join(rest))
    values = (group, length, layers, width, model, marker, stage or "from scratch")
    return dict(zip(KINDS, values, strict=True))


def _mistakes(rows: Rows, weights: Weights) -> list[str]:
    lines = ["| set | model | label | verdict | confidence |", "|---|---|---|---|--:|"]
    for name in (*SETS, EARLIER):
        for row in labeled(of_set(rows, name)) if name.startswith("fresh") else ():
            verdict, confidence = judge(row, weights)
            if verdict != row["label"]:
                lines.append(
                    f"| {name} | {_name(row)} | {row['label']} | {verdict} | {confidence:.2f} |"
                )
    return lines


def _name(row: Row) -> str:
    if "name" in row:
        return str(row["name"]).removeprefix("results/").replace("/cells/", "/")
    spec = row["spec"]
    second = f" + {spec['second']} ({spec['share']:g})" if spec["second"] else ""
    return f"{spec['algorithm']}{second}, {spec['group']}, length {spec['length']}"


def _fast(numbers: Mapping[str, Any]) -> list[str]:
    lines = [
        "| models | n | gave a mechanism | agreed with the full verdict |",
        "|---|--:|--:|--:|",
    ]
    for name, row in numbers.items():
        agrees = "" if row["fast_agrees"] is None else f"{row['fast_agrees']:.0%}"
        lines.append(f"| {name} | {row['models']} | {row['fast_told']} | {agrees} |")
    return lines


_HEAD = """# Calibration of the verdict

How often is the verdict correct, and how far can its confidence be trusted? Its weights were fitted
to models whose algorithm is known, and evaluated once on fresh ones.
"""

_SETS = """- **Compiled**: weights computed so that the model runs a known algorithm, all options
  varied (group, length, notation, start marker, parity readable or hidden, counters, unused heads
  and layers, basis, noise, sharpness). Fresh models have other seeds.
- **None or two of the algorithms**: two circuits that share the logits, folds in strides and
  chunks, lookup tables, a quotient composed first, and circuits that are computed but not read.
- **Trained**: models trained for this purpose: eight groups, lengths 8 to 32, 2 to 8 layers, widths
  16 to 256, GPT-2 and Pythia, with and without a start marker, from scratch and after a first
  stage. Their labels come from interchanges of neighboring actions, cut blocks and swaps of
  subspaces, which the verdict does not use. The rule for labels was fixed before any label was
  computed (`calibration/trained.py`).
  - Fitted are 405 models of 51 shapes (`calibration/models.toml`), data orders 0 to 7, at the end
    of training.
  - Fresh are the 50 shapes of `calibration/fresh.toml`, data orders 8 to 12: 26 of these shapes are
    among the fitted, 24 are new, such as width 256 and the group D5. The verdict was evaluated on
    them once, after its weights and features were fixed. One rule was corrected afterwards: what
    follows the first quotient now grows if any later link does, not only the last. No model on
    this page changed its most probable mechanism.
  - Earlier checkpoints are 105: at most two of a model, for the first two data orders of each
    shape. "Fresh: all" leaves them out, so that no model counts twice.
- **Trained, of results/**: 119 of the 220 small models in `results/tiny*` whose weights were kept
  (most are S3, length 12, 4 layers).

Data orders 4 to 7, some of the compiled models and half of those in `results/` were fresh when
earlier weights were evaluated, which turned out to be overconfident on trained models.

Columns: *correct* is the share of models whose label is the most probable mechanism, and the
confidence is the probability of that mechanism. The last two columns count models.

The verdict does not read the training log, so there is one calibration, with or without a log.
`make calibration` writes this page from `calibration/data/`.
"""

_RELIABILITY = """How often the most probable mechanism is correct, by confidence.
"""

_TRAINED = f"""The rule gives a label only if the interventions are clear. Other models are labeled
"{UNDECIDED}" and count neither as correct nor as wrong. "{UNLEARNED}" means a solved length below
4. Measured: {{measured}} of {{planned}} fresh models. At the end of training:
"""

_LIMITS = """- Most mistakes on trained models call a parity-associative model parallel.
  Interchanges show that its state is composed, yet when the last token is reset, the state needs
  nearly the same layers at every length.
- Between 0.7 and 0.9 the verdict looks overconfident on trained models (second table under
  Reliability), though few models lie there and the intervals are wide.
- More than half of the models are labeled undecided. What the verdict calls them cannot be checked.
- No fresh trained model is labeled composed-quotient, sequential, mixed or other. For these names
  the accuracy rests on compiled models.
"""

_KINDS = """The same models by kind. Rows with few labels say little. Under *training*, `topic-1`,
`topic-2` and `control` first read documents of a topic model or random ones, `parity` first learned
parity, `length` first read short sequences, and `auxiliary` learned parity along with the state.
"""

_STABILITY = """45 models, ten analysis seeds at each of three lengths: the longest that a model
solves, 3/4 of it and 1/2 of it. An undecided verdict calls several mechanisms possible. A verdict
flips if it rules out the mechanism that most verdicts on the same model allow. "Seed alone"
compares verdicts on a model at one length, "length alone" those with one seed.

The bound of 0.8 is not fitted. It was chosen when verdicts on 21 of these models were known; none
of those flips. The other 24 models are from `calibration/models.toml`."""
