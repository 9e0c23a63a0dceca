"""`statetrace doctor`: what is installed, which device it uses, and whether results are correct."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace import __version__
from statetrace.cli.console import duration, next_steps, out, print_table, working
from statetrace.errors import StatetraceError

EXTRAS = {
    "explorer": "statetrace explore",
    "ray": "studies on a Ray cluster",
    "tensorboard": "training curves in TensorBoard",
    "wandb": "training curves in Weights & Biases",
}
"""What each extra that a user may want is for."""

ALGORITHM, GROUP, LENGTH = "parity-associative", "S3", 8
"""Of the compiled model of the self-test."""

LENSES = ("generalization", "probing", "patching", "depth")


@dataclass(frozen=True)
class Check:
    """Attributes:
    name: what was checked.
    ok: whether it is as it should be; None if that is optional.
    what: what was detected.
    remedy: what to do if it is missing.
    """

    name: str
    ok: bool | None
    what: str
    remedy: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Check the installation: versions, device, and a self-test of about ten seconds.

    The self-test runs four lenses and the verdict on a model with computed weights, whose algorithm
    is known. What is missing is listed with the command that installs it.
    """
    with working("checking packages") as work:
        checks = [*packages(), *extras()]
        work.doing("checking the device")
        checks += machine()
        work.doing("running the self-test")
        checks.append(self_test())
    failed = [check for check in checks if check.ok is False]
    if as_json:
        report = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        out.print(json.dumps(report, indent=2), markup=False)
    else:
        print_table(_table(checks))
    if failed:
        names = ", ".join(check.name for check in failed)
        raise StatetraceError(f"{names}: {failed[0].what}; {failed[0].remedy}")
    if not as_json:
        next_steps(["demo"])


def packages() -> list[Check]:
    """statetrace itself and every package that it requires."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    needed = [_requirement(text, "") for text in _requirements(None)]
    own = __version__ if needed else f"{__version__}, not installed: run from its source folder"
    return [Check("statetrace", True, own), Check("Python", True, python), *needed]


def extras() -> list[Check]:
    """Optional parts; one that is not installed is not an error."""
    checks = []
    for extra, use in EXTRAS.items():
        needed = [_requirement(text, extra) for text in _requirements(extra)]
        missing = [check for check in needed if not check.ok]
        what = f"{use}: " + ", ".join(f"{check.name} {check.what}" for check in needed)
        checks.append(Check(extra, None if missing else True, what,
                            missing[0].remedy if missing else ""))  # fmt: skip
    return checks


def _requirements(extra: str | None) -> list[str]:
    """What the installed package always requires, or requires for an extra."""
    try:
        lines = requires("statetrace") or []
    except PackageNotFoundError:  # run from its source folder
        return []
    mark = f'extra == "{extra}"'
    return [line for line in lines if (mark in line if extra else "extra ==" not in line)]


def _requirement(text: str, extra: str) -> Check:
    from packaging.requirements import Requirement

    needed = Requirement(text)
    remedy = f"pip install '{f'statetrace[{extra}]' if extra else needed}'"
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        return Check(needed.name, False, "is not installed", remedy)
    fits = needed.specifier.contains(installed, prereleases=True)
    what = installed if fits else f"{installed}, but {needed.specifier} is needed"
    return Check(needed.name, fits, what, "" if fits else remedy)


def machine() -> list[Check]:
    """The device that "auto" means, memory, and how many threads torch uses."""
    import torch

    from statetrace.models.device import free_bytes, pick_device

    device = pick_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no CUDA GPU"
    remedy = "" if device.type == "cuda" else "models of the paper's size need a GPU"
    threads = f"{torch.get_num_threads()} of {os.cpu_count()} cores"
    return [
        Check("device", True if device.type == "cuda" else None, f"{device} ({name})", remedy),
        Check("free memory", None, f"{free_bytes(device) / 1e9:.1f} GB"),
        Check("threads", None, threads),
    ]


def self_test() -> Check:
    """Lenses and verdict on a model whose algorithm is known."""
    from statetrace import api

    began = time.perf_counter()
    try:
        model = api.compile(ALGORITHM, GROUP, length=LENGTH)
        model.analyze(LENSES)
        judged = model.verdict().mechanism
        what = f"a compiled {ALGORITHM} model of {GROUP} is judged {judged}"
    except Exception as error:  # whatever is wrong with this machine
        judged, what = "", f"{type(error).__name__}: {str(error).splitlines()[0]}"
    seconds = duration(time.perf_counter() - began)
    remedy = "reinstall statetrace and torch; if that does not help, report it with this output"
    ok = judged == ALGORITHM
    return Check("self-test", ok, f"{what} ({seconds})", "" if ok else remedy)


def _table(checks: list[Check]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    marks: dict[Any, Text] = {True: Text("ok", "green"), False: Text("failed", "red")}
    for check in checks:
        what = check.what + (f"; {check.remedy}" if check.remedy else "")
        table.add_row(Text(check.name, "bold"), marks.get(check.ok, Text("-", "dim")), Text(what))
    return table
