"""Inject faults into training, analysis, report, explorer and studies, and count what happens.

A command is disturbed once, at a random moment or by a damaged file, and then run again. It has

    survived      finished, with every file equal to that of an undisturbed run, byte for byte
    refused       named the damaged file in one sentence
    older         named the damaged file and went on without it (as from an older checkpoint)
    lost          hung, printed a traceback, or did not finish
    different     finished with other files without a message

    python benchmarks/faults.py                     # 600 faults, about 15 minutes on one core
    python benchmarks/faults.py --jobs report --faults flipped --count 20 --verbose

Cost: about a second per fault; those of studies on Ray (--ray) a minute. Full and read-only disks
need the right to mount. Exits with status 1 if anything is lost or different.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.fault_jobs import (  # noqa: E402
    JOBS,
    PATIENCE,
    RAY,
    Ending,
    Job,
    differences,
    ending,
    make_jobs,
    popen,
    renew,
    run,
)
from tests import forkserver  # noqa: E402

PACKAGE = str(ROOT / "statetrace")
"""In every traceback of the package; Python itself may be interrupted before it starts."""

SURVIVED, REFUSED, OLDER = "survived", "refused", "older"
LOST, DIFFERENT = "lost", "different"
OUTCOMES = (SURVIVED, REFUSED, OLDER, LOST, DIFFERENT)

OUT_OF_MEMORY = """
import runpy, subprocess, sys, torch
class Popen(subprocess.Popen):  # so that workers of a study also run out of memory
    def __init__(self, command, **options):
        worker = "work" in command
        super().__init__([command[0], __file__, *command[3:]] if worker else command, **options)
subprocess.Popen = Popen
call, left = torch.nn.Module.__call__, [{after}]
def failing(*given, **named):
    left[0] -= 1
    if left[0] == 0:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return call(*given, **named)
torch.nn.Module.__call__ = failing
runpy.run_module("statetrace", run_name="__main__", alter_sys=True)
"""
CLOCK_SET_BACK = """
import datetime, runpy, sys, time
class Earlier(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) - datetime.timedelta(days=400)
import statetrace.runs, statetrace.studies.survey
statetrace.runs.datetime = statetrace.studies.survey.datetime = Earlier
clock = time.time
time.time = lambda: clock() - 400 * 86400
runpy.run_module("statetrace", run_name="__main__", alter_sys=True)
"""


Inject = Callable[[Job, Path, random.Random], Ending]
"""Disturbs a job in a folder; returns how the disturbed command ended."""


@dataclass
class Fault:
    """One fault; `file` is what was damaged."""

    job: Job
    kind: str
    inject: Inject
    file: str | None = None


def kill(number: int) -> Inject:
    """Send a signal at a random moment of the job."""

    def inject(job: Job, work: Path, chance: random.Random) -> Ending:
        process = popen(job.command, work)
        time.sleep(chance.uniform(0, job.seconds))
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        if job.serves:
            time.sleep(0.05)
            process.terminate()
        return ending(process)

    return inject


def twice(job: Job, work: Path, chance: random.Random) -> Ending:
    """The same command in two processes at once."""
    first = popen(job.command, work)
    time.sleep(chance.uniform(0, job.seconds))
    second = popen(job.command, work)
    if job.serves:
        time.sleep(job.seconds)
        first.terminate(), second.terminate()
    endings = [ending(first), ending(second)]
    return next((each for each in endings if each.status), endings[0])


def kill_in_ray(process_name: str) -> Inject:
    """Kill a process of a Ray cluster at a random moment of the study that started it."""

    def inject(job: Job, work: Path, chance: random.Random) -> Ending:
        driver = popen(job.command, work)
        time.sleep(chance.uniform(0, 0.9 * job.seconds))
        while driver.poll() is None:
            processes = {driver.pid: "driver"} | descendants(driver.pid)
            victims = [pid for pid, name in processes.items() if process_name in name]
            if victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                break
            time.sleep(0.05)
        return ending(driver)

    return inject


def descendants(pid: int) -> dict[int, str]:
    """Process id -> command line of all processes below one."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
            names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    below, todo = {}, [pid]
    while todo:
        above = todo.pop()
        children = [child for child, parent in parents.items() if parent == above]
        below |= {child: names.get(child, "") for child in children}
        todo += children
    return below


def out_of_memory(job: Job, work: Path, chance: random.Random) -> Ending:
    """The device runs out of memory at a random call of a module, in every worker of a study."""
    script = work.with_name("out_of_memory.py")
    script.write_text(OUT_OF_MEMORY.format(after=int(10 ** chance.uniform(0, 3.5))))
    return run(job, work, [str(script), *job.command])


def clock_set_back(job: Job, work: Path, chance: random.Random) -> Ending:
    """Killed, and continued by a machine whose clock is 400 days behind."""
    kill(signal.SIGKILL)(job, work, chance)
    script = work.with_name("clock.py")
    script.write_text(CLOCK_SET_BACK)
    return run(job, work, [str(script), *job.command])


@contextmanager
def disk(work: Path, size: int) -> Iterator[None]:
    """Mount a small disk over a folder, with a copy of its content."""
    aside = work.with_name("aside")
    renew(aside, work)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", work], check=True)
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", work], check=True)
        yield
        renew(aside, work)
    finally:
        subprocess.run(["umount", "-l", work], check=True)
    renew(work, aside)


def _bytes(folder: Path) -> int:
    """Of a disk that just holds the files, in pages."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(4096 * -(-file.stat().st_size // 4096) for file in files)


def disk_full(job: Job, work: Path, chance: random.Random) -> Ending:
    """The disk is full after a random number of bytes."""
    size = _bytes(work) + int(chance.uniform(4096, 8192 * len(job.expected)))
    with disk(work, size):
        return run(job, work)


def read_only(job: Job, work: Path, chance: random.Random) -> Ending:
    """The disk becomes read-only at a random moment, as after an error of the hardware."""
    with disk(work, 2**28):
        subprocess.run(["mount", "-o", "remount,ro", work], check=True)
        return run(job, work)


def _truncated(body: bytes, chance: random.Random) -> bytes:
    return body[: chance.randrange(len(body))]


def _zeroed(body: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(body))
    length = chance.randint(1, len(body) - start)
    return body[:start] + bytes(length) + body[start + length :]


def _flipped(body: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(body))
    return body[:place] + bytes([body[place] ^ 1 << chance.randrange(8)]) + body[place + 1 :]


def _other_json(body: bytes, chance: random.Random) -> bytes:
    """Valid JSON: another kind, or the same with a digit changed."""
    places = [n for n, byte in enumerate(body) if chr(byte).isdigit()]
    if chance.random() < 0.5 or not places:
        return chance.choice([b"{}", b"[]", b"[3]", b"null", b'{"format": 1}', b'{"step": 6}'])
    place = chance.choice(places)
    digit = (body[place] - ord("0") + chance.randint(1, 8)) % 9 + 1
    return body[:place] + str(digit).encode() + body[place + 1 :]


DAMAGES = {"truncated": _truncated, "zeroed": _zeroed, "bit flipped": _flipped,
           "other JSON": _other_json}  # fmt: skip


def damage(kind: str, file: str) -> Inject:
    """Damage one file of the folder that the job starts from."""

    def inject(job: Job, work: Path, chance: random.Random) -> Ending:
        path = work / file
        if kind == "deleted":
            path.unlink()
        elif kind == "swapped":
            assert job.other is not None
            path.write_bytes((job.other / file).read_bytes())
        else:
            body = path.read_bytes()
            path.write_bytes(DAMAGES[kind](body, chance) if body else b"\0")
        return Ending(0, "")

    return inject


MOMENTS = {"SIGKILL": kill(signal.SIGKILL), "SIGTERM": kill(signal.SIGTERM),
           "Ctrl-C": kill(signal.SIGINT), "two processes": twice,
           "clock set back": clock_set_back, "out of memory": out_of_memory,
           "disk full": disk_full, "read-only disk": read_only}  # fmt: skip
RAY_KILLS = {"Ray worker killed": kill_in_ray("ray::"),
             "raylet killed": kill_in_ray("raylet/raylet"),
             "Ray driver killed": kill_in_ray("driver")}  # fmt: skip
OPTIONAL = re.compile(r"run/verdict\.json|run/lenses/\w+\.json")
"""Without these there is no verdict or result, as if it had never been computed."""

SKIPPED = (".lock", "slurm.sh", "report.html")


def plan(jobs: list[Job], count: int, chance: random.Random, only: str = "") -> list[Fault]:
    """Faults in turn from every job and every kind, until there are enough."""
    mounts = os.geteuid() == 0
    queues: list[list[Fault]] = []
    for job in jobs:
        for kind, inject in (RAY_KILLS if job.name == RAY else MOMENTS).items():
            if mounts or inject not in (disk_full, read_only):
                queues.append([Fault(job, kind, inject)] * count)
        paths = {path for pattern in job.damaged for path in job.start.glob(pattern)}
        names = [str(p.relative_to(job.start)) for p in sorted(paths) if p.is_file()]
        names = [name for name in names if not name.endswith(SKIPPED)]
        for kind in (*DAMAGES, "deleted", "swapped"):
            faults = [Fault(job, kind, damage(kind, name), name) for name in names]
            if kind == "deleted" and job.name in ("verdict", "report"):
                faults = [f for f in faults if not OPTIONAL.fullmatch(f.file or "")]
            if kind == "swapped":
                faults = [f for f in faults if job.other and _differ(job, f.file or "")]
            queues.append(chance.sample(faults, len(faults)))
    queues = [queue for queue in queues if queue and only in queue[0].kind]
    chance.shuffle(queues)
    chosen: list[Fault] = []
    while len(chosen) < count and any(queues):
        for queue in filter(None, queues):
            chosen.append(queue.pop())
    return chosen[:count]


def _differ(job: Job, name: str) -> bool:
    assert job.other is not None
    theirs = job.other / name
    return theirs.is_file() and theirs.read_bytes() != (job.start / name).read_bytes()


def attempt(fault: Fault, work: Path, chance: random.Random) -> tuple[str, str, int | None]:
    """(outcome, why, status of the disturbed command) of one fault."""
    renew(work, fault.job.start)
    disturbed = fault.inject(fault.job, work, chance)
    return *judge(fault, work, disturbed), disturbed.status


def judge(fault: Fault, work: Path, disturbed: Ending) -> tuple[str, str]:
    """(outcome, why): run the command again and compare."""
    job = fault.job
    if "Traceback (most recent" in disturbed.text and PACKAGE in disturbed.text:
        return LOST, disturbed.text
    if disturbed.status is None:
        return LOST, f"it hung for {PATIENCE} s"
    unforced = fault.inject in (out_of_memory, disk_full, read_only)
    if unforced and disturbed.status and disturbed.sentence is None:
        return LOST, f"not one sentence: {disturbed.text}"
    final = run(job, work)
    if final.status is None:
        return LOST, f"it hung for {PATIENCE} s"
    if final.status:
        refused = final.sentence is not None and fault.file is not None
        names = refused and _names(fault.file or "", final.text)
        return (REFUSED if names else LOST), final.text
    changed = differences(job, work)
    if not changed:
        return SURVIVED, ""
    text = final.text + "".join(
        (work / made).read_text() for made in job.makes if made.endswith(".html")
    )
    reported = any(phrase in text for phrase in ("damaged", "is missing", "of other weights"))
    if fault.file is not None and _names(fault.file, text) and reported:
        return OLDER, final.text
    return DIFFERENT, f"{changed}\n{final.text}"


def _names(file: str, text: str) -> bool:
    """Whether a text names a file or the folder that it is in."""
    folder, name = Path(file).parent, Path(file).name
    return name in text or (folder.name in text and len(folder.parts) > 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Inject faults and count what happens.")
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default="", help="only jobs that match this pattern")
    parser.add_argument("--faults", default="", help="only faults whose name contains this")
    parser.add_argument("--ray", action="store_true", help="only studies on Ray")
    parser.add_argument("--verbose", action="store_true", help="print every fault")
    parser.add_argument("--out", type=Path, help="append every fault to a file of JSON lines")
    parser.add_argument("--show", type=Path, nargs="+", help="only add up such files")
    options = parser.parse_args()
    if options.show:
        lines = [line for file in options.show for line in file.read_text().splitlines()]
        show([json.loads(line) for line in lines])
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    server = forkserver.start()
    chance, records = random.Random(options.seed), []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        work = Path(folder) / "work"
        names = [
            name for name in JOBS if re.search(options.jobs, name) and (name == RAY) == options.ray
        ]
        jobs = make_jobs(Path(folder), names, lambda line: print(line, flush=True))
        faults = plan(jobs, options.count, chance, options.faults)
        for number, fault in enumerate(faults, start=1):
            began = time.perf_counter()
            outcome, why, status = attempt(fault, work, random.Random(f"{options.seed} {number}"))
            records.append({"job": fault.job.name, "fault": fault.kind, "file": fault.file,
                            "outcome": outcome, "why": why, "status": status,
                            "seconds": round(time.perf_counter() - began, 2)})  # fmt: skip
            if options.out:
                with options.out.open("a") as lines:
                    lines.write(json.dumps(records[-1]) + "\n")
            if options.verbose or outcome in (LOST, DIFFERENT):
                where = f" of {fault.file}" if fault.file else ""
                print(f"{number} {fault.job.name}: {fault.kind}{where}: {outcome}", flush=True)
                print("    " + why[-1500:].replace("\n", "\n    "), flush=True)
    show(records)
    if server is not None:
        server.communicate()
    sys.exit(any(record["outcome"] in (LOST, DIFFERENT) for record in records))


def _struck(records: list[dict[str, object]]) -> str:
    """How many of the faults that need a running command found one."""
    moments = [record for record in records if record["file"] is None]
    ended = sum(record["status"] != 0 for record in moments)
    return f"{ended} of {len(moments)} faults at a random moment ended the command"


def show(records: list[dict[str, object]]) -> None:
    """A table of jobs and kinds by outcome."""
    print("\n" + _struck(records))
    for key in ("job", "fault"):
        print(f"\n{key:<24}{'tried':>9}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES))
        names = [*dict.fromkeys(record[key] for record in records)]
        for name in [*sorted(map(str, names)), "all"]:
            counts = Counter(r["outcome"] for r in records if name in (r[key], "all"))
            cells = "".join(f"{counts[outcome]:>11}" for outcome in OUTCOMES)
            print(f"{name:<24}{sum(counts.values()):>9}{cells}")


if __name__ == "__main__":
    main()
