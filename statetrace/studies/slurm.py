"""A study as a SLURM array job: a script with one task per cell.

Tasks run the same worker as every engine. Each starts with its own cell and then helps with the
rest, so the others make up for a task that was preempted or never started.

Caveat: partitions and accounts depend on the cluster; give them with `directives`. SLURM limits the
size of an array (1,001 by default); larger studies get several cells per task.
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
"""Seconds before its time limit at which a task is signalled, to write a checkpoint."""

TIME = r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|unlimited|infinite"
MEMORY = r"\d+[KMGT]?B?"


@dataclass(frozen=True)
class SlurmSpec:
    """Resources of a task.

    Attributes:
        at_once: most tasks at once; None leaves it to SLURM.
        gpus: GPUs per task; SLURM assigns whole ones.
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
            f"time '{self.time}' is not a SLURM time; use hours:minutes:seconds, such as "
            "24:00:00, days-hours, such as 2-12, or minutes",
        )
        need(
            re.fullmatch(MEMORY, self.memory, re.IGNORECASE) is not None,
            f"memory '{self.memory}' is not a SLURM size; use megabytes, or a number with K, M, G "
            "or T, such as 16G",
        )
        for line in self.directives:
            need(
                line.startswith("-") and line.isprintable(),
                f"directive {line!r} is not an option of sbatch; write it as in "
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
        f"--signal=B:TERM@{GRACE}",  # B: to the script, which becomes the worker
        f"--output={shlex.quote(str(study.path / 'slurm-%A_%a.out'))}",
        *spec.directives,
    ]
    cells = "\n".join(f"  {shlex.quote(name)}" for name in names)
    head = "\n".join(f"#SBATCH {line}" for line in directives)
    return f"""#!/bin/bash
{head}

# {len(names)} cells in {tasks} tasks. Submit with sbatch, and again after a failure: cells
# that have ended are skipped, others resume from their last checkpoint.
# `statetrace study status {study.path}` shows the status.
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
# exec: the signal before the time limit must reach the worker itself
exec {shlex.quote(spec.program)} study work "$study" "${{mine[@]}}" --then-others
"""
