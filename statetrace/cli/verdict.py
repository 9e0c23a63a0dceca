"""`statetrace verdict`: which algorithm does this model run?"""

from __future__ import annotations

import json
from dataclasses import replace
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

    Weighs the results of `statetrace analyze` in RUN/lenses and makes those that are missing. The
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
    from statetrace.mechanisms.learned import enough
    from statetrace.mechanisms.verdict import verdict as judge

    have = _results(run, None if "foreign" in run.info else _newest(run))
    if enough(have):
        return judge(have, _group(run)).as_json()  # the model is not needed
    from statetrace.lenses.registry import LENSES, make_spec
    from statetrace.lenses.subject import from_run
    from statetrace.mechanisms.gather import gather

    subject = from_run(run, None, device, note)
    have = _results(run, subject.step)
    if "foreign" not in run.info and "dynamics" not in have:
        spec = make_spec("dynamics", {"run": str(run.path)})
        have["dynamics"] = LENSES["dynamics"].look(subject.model, subject.task, spec)
    with bars(transient=True) as progress:
        rows: dict[str, TaskID] = {}

        def tell(lens: str, share: float) -> None:
            if lens not in rows:
                rows[lens] = progress.add_task(lens, total=1.0)
            progress.update(rows[lens], completed=share)

        results = gather(subject.model, subject.task, have, tell)
    if "patching" in results and results["patching"].summary["length"] == subject.task.length:
        for lens, result in results.items():
            if lens not in have:  # at another length they would be taken for the task's own
                replace(result, subject=subject.about()).save(run.path / "lenses")
    return judge(results, subject.task.group).as_json()


def _results(run: Run, step: int | None) -> dict[str, LensResult]:
    """What `analyze` left, as far as it is about the same checkpoint."""
    from statetrace.lenses.result import LensResult

    found = {}
    for file in sorted((run.path / "lenses").glob("*.json")):
        result = LensResult.load(file.parent, file.stem)
        if result.subject.get("step") == step:
            found[file.stem] = result
    return found


def _quick(run: Run, device: str) -> dict[str, Any]:
    from statetrace.mechanisms.fast import quick_verdict

    have = _results(run, None if "foreign" in run.info else _newest(run))
    if "generalization" not in have:
        from statetrace.lenses.generalization import generalization
        from statetrace.lenses.subject import from_run

        subject = from_run(run, None, device, note)
        have["generalization"] = generalization(subject.model, subject.task)
    return quick_verdict(have["generalization"])


def _group(run: Run) -> Group:
    from statetrace.groups import group

    about = run.info["foreign"] if "foreign" in run.info else run.recipe["task"]
    return group(about["group"], about["notation"])


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
