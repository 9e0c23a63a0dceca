"""A study as a SLURM array job: one task per cell, written as a script to read and to submit.

Tasks run the same worker as every engine, each looking at its own cell first and then at whatever
is left, so a task that was preempted, or never got a machine, is made up for by the others.

Cost: none.
Caveat: what a cluster calls its partitions and accounts only its users know; give such lines with
`directives`. SLURM limits the size of an array (1,001 by default): larger studies are cut into
several cells per task.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from statetrace.config.checks import at_least, need
from statetrace.studies.folder import Study

LARGEST = 1000
"""Tasks of one array job."""

GRACE = 120
"""Seconds before its time is up at which a task is told, so that it can write a checkpoint."""

TIME = r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|unlimited|infinite"
MEMORY = r"\d+[KMGT]?B?"


@dataclass(frozen=True)
class SlurmSpec:
    """What a task may use.

    Attributes:
        at_once: tasks at the same time; None leaves it to SLURM.
        gpus: GPUs per task; runs share none, as SLURM hands out whole ones.
        directives: further `#SBATCH` lines, without that word.
    """

    at_once: int | None = None
    time: str = "24:00:00"
    memory: str = "16G"
    gpus: int = 0
    directives: Sequence[str] = ()
    program: str = "statetrace"

    def __post_init__(self) -> None:
        at_least("jobs", self.at_once, 1)
        at_least("gpus", self.gpus, 0)
        need(
            re.fullmatch(TIME, self.time, re.IGNORECASE) is not None,
            f"time '{self.time}' is none that SLURM reads; use hours:minutes:seconds, such as "
            "24:00:00, days-hours, such as 2-12, or minutes",
        )
        need(
            re.fullmatch(MEMORY, self.memory, re.IGNORECASE) is not None,
            f"memory '{self.memory}' is none that SLURM reads; use a number of megabytes, or one "
            "with K, M, G or T, such as 16G",
        )
        for line in self.directives:
            need(
                line.startswith("-") and line.isprintable(),
                f"directive {line!r} is no option of sbatch; write it as in "
                "--directive=--partition=gpu",
            )


def script(study: Study, spec: SlurmSpec) -> str:
    """The text of the script."""
    names = [cell.name for cell in study.plan.cells]
    each = -(-len(names) // LARGEST)
    tasks = -(-len(names) // each)
    limit = f"%{spec.at_once}" if spec.at_once else ""
    folder = shlex.quote(str(study.path))
    directives = [
        f"--job-name={shlex.quote('study-' + study.path.name)}",
        f"--array=0-{tasks - 1}{limit}",
        f"--time={spec.time}",
        f"--mem={spec.memory}",
        "--cpus-per-task=1",
        *([f"--gpus-per-task={spec.gpus}", "--ntasks=1"] if spec.gpus else []),
        "--requeue",
        "--open-mode=append",
        f"--signal=B:TERM@{GRACE}",  # B: to the script itself, which becomes the worker
        f"--output={shlex.quote(str(study.path / 'slurm-%A_%a.out'))}",
        *spec.directives,
    ]
    cells = "\n".join(f"  {shlex.quote(name)}" for name in names)
    head = "\n".join(f"#SBATCH {line}" for line in directives)
    return f"""#!/bin/bash
{head}

# {len(names)} cells in {tasks} tasks. Submit with sbatch, and again after any trouble: cells
# that have ended are skipped, others go on from their last checkpoint.
# `statetrace study status {study.path}` says how it stands.
set -u
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

study={folder}
cells=(
{cells}
)

first=$((SLURM_ARRAY_TASK_ID * {each}))
mine=()
for name in "${{cells[@]:first:{each}}}"; do
  mine+=(--cell "$name")
done
# exec: the signal before the end of its time must reach the worker itself
exec {shlex.quote(spec.program)} study work "$study" "${{mine[@]}}" --then-others
"""
