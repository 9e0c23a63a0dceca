"""`statetrace verdict`: which algorithm does this model run?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import bars, note, out
from statetrace.runs import Run

if TYPE_CHECKING:
    from statetrace.groups import Group
    from statetrace.lenses.result import LensResult

READ = ("generalization", "probing", "patching", "depth", "attention", "dynamics")
"""Lenses that a verdict reads."""


def verdict(
    run: Annotated[
        str, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
    ],
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Read generalization alone, as the paper does early in training."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Say which algorithm a model runs, how sure that is, and what each lens contributed.

    Weighs the results of `statetrace analyze` in RUN/lenses and makes those that are missing, are
    about other weights, or were made with settings under which its question cannot be asked. The
    mechanism is sequential, parallel, associative, parity-associative, mixed (no algorithm explains
    what the lenses show) or unlearned. Writes RUN/verdict.json.
    """
    from statetrace.cli.subjects import run_named
    from statetrace.runs import write_json

    target = run_named(run)
    found = _quick(target, device) if fast else _full(target, device)
    if not fast:
        write_json(target.path / "verdict.json", found)
    if as_json:
        out.print(json.dumps(found, indent=2), markup=False)
        return
    _show(found)


def _full(run: Run, device: str) -> dict[str, Any]:
    from statetrace.mechanisms.mastery import enough
    from statetrace.mechanisms.verdict import verdict as judge

    kept = _kept(run, None if "foreign" in run.info else _newest(run))
    if enough(kept.usable) and "dynamics" not in kept.unfit:  # the model is not needed
        _tell_unused(kept)
        return _about(judge(kept.usable, _group(run)).as_json(), kept.weights)
    from statetrace.lenses.loading import from_run
    from statetrace.lenses.registry import LENSES, make_spec
    from statetrace.mechanisms.collect_evidence import collect_evidence

    subject = from_run(run, None, device, note)
    kept = _kept(run, subject.step)
    _tell_unused(kept)
    have = dict(kept.usable)
    if "foreign" not in run.info and "dynamics" not in have:
        spec = make_spec("dynamics", {"run": str(run.path)})
        have["dynamics"] = LENSES["dynamics"].look(subject.model, subject.task, spec)
    with bars(transient=True) as progress:
        rows: dict[str, TaskID] = {}

        def tell(lens: str, share: float) -> None:
            if lens not in rows:
                rows[lens] = progress.add_task(lens, total=1.0)
            progress.update(rows[lens], completed=share)

        results = collect_evidence(subject.model, subject.task, have, tell)
    if "patching" in results and results["patching"].summary["length"] == subject.task.length:
        for lens, result in results.items():
            # at another length they would be taken for the task's own
            if lens not in have and lens not in kept.unfit:
                replace(result, subject=subject.about()).save(run.path / "lenses")
    return _about(judge(results, subject.task.group).as_json(), subject.weights)


@dataclass
class _Kept:
    """Results in a run folder about one checkpoint.

    Attributes:
        usable: those that a verdict can use, all made at the length to look at.
        unfit: lens -> why it cannot use what somebody made; that is left as it is.
        outdated: lenses that looked at other weights than are there now.
        weights: fingerprint of those, of a checkpoint from elsewhere; where it is gone, that of
            the first result.
    """

    weights: str | None
    usable: dict[str, LensResult] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)


def _kept(run: Run, step: int | None, lenses: Sequence[str] = READ) -> _Kept:
    """What `analyze` left, generalization first, as it tells the length: of a model that fails at
    its own length, what was seen at the length that it masters (`--at-length able`)."""
    from statetrace.lenses.fingerprint import differ, weights_of
    from statetrace.lenses.result import WHOLE, LensResult
    from statetrace.mechanisms.compatibility import incompatibility
    from statetrace.mechanisms.mastery import mastered_length

    found, group = _Kept(weights_of(run)), _group(run)
    own = length = int(_task(run)["length"])
    for lens in lenses:
        shorter = lens not in WHOLE and length != own
        folder = run.path / "lenses" / (f"length-{length}" if shorter else "")
        if not (folder / f"{lens}.json").is_file():
            continue
        result = LensResult.load(folder, lens)
        if result.subject.get("step") != step:
            continue
        found.weights = found.weights or result.subject.get("weights")
        why = incompatibility(result, group, length)
        if differ(result.subject.get("weights"), found.weights):
            found.outdated.append(lens)
        elif why is not None:
            found.unfit[lens] = why
        else:
            found.usable[lens] = result
            length = mastered_length(result) if lens == "generalization" else length
    return found


def _tell_unused(kept: _Kept) -> None:
    reasons = [f"{lens} ({why})" for lens, why in kept.unfit.items()]
    if kept.outdated:
        reasons.append(f"{', '.join(kept.outdated)} (of other weights than the model has now)")
    if reasons:
        note(f"not used, and made anew where needed: {'; '.join(reasons)}")


def _about(found: dict[str, Any], weights: str | None) -> dict[str, Any]:
    return found if weights is None else found | {"weights": weights}


def _quick(run: Run, device: str) -> dict[str, Any]:
    from statetrace.mechanisms.cutoff_verdict import cutoff_verdict

    kept = _kept(run, None if "foreign" in run.info else _newest(run), ["generalization"])
    general = kept.usable.get("generalization")
    if general is None:
        from statetrace.lenses.generalization import generalization
        from statetrace.lenses.loading import from_run

        _tell_unused(kept)
        subject = from_run(run, None, device, note)
        general = generalization(subject.model, subject.task)
    return cutoff_verdict(general)


def _group(run: Run) -> Group:
    from statetrace.groups import group

    return group(_task(run)["group"], _task(run)["notation"])


def _task(run: Run) -> dict[str, Any]:
    info = run.info
    about: dict[str, Any] = info["foreign"] if "foreign" in info else run.recipe["task"]
    return about


def _newest(run: Run) -> int | None:
    steps = [step for step, _ in run.checkpoints()]
    return max(steps) if steps else None


def _show(found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    for lens, told in found["evidence"].items():
        table.add_row(Text(lens, style="bold"), Text(told["says"]))
    out.print(table)
    out.print()
    line = Text(found["mechanism"], style="bold")
    if found["mechanism"] != "unlearned":
        line.append(f", confidence {found['confidence']:.0%}", style="not bold")
    line.append(f": {found['says']}", style="not bold")
    out.print(line)
