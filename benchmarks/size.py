"""Memory of analyses at ten times the paper's size: length 1,000 instead of 100, 1.5 billion
parameters instead of 160 million, ten times as many sequences and pairs.

Each case runs in its own process, with `--free` bytes as the amount of free memory. Beyond the
weights it may use that amount plus what its lens must hold (geometry and probing: the residual
stream of all layers at one position of every sequence). Otherwise the program exits with status 1.
The report of a run of length 1,000 may use as much in all, and the size of its page is limited too.

    python benchmarks/size.py             # ten minutes on one core; the largest model takes 6.3 GB
    python benchmarks/size.py --only length
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from statetrace.models import device

SMALL = {"layers": 4, "width": 64, "heads": 4}
WIDE = {"layers": 2, "width": 768, "heads": 12}
LARGE = {"layers": 48, "width": 1600, "heads": 25}
HOLDING = ("geometry", "probing")
FIRST = ("prefix-substitution-resid",)

CASES: dict[str, tuple[dict[str, int], int, str, dict[str, Any]]] = {
    "length: generalization": (SMALL, 1000, "generalization", {"longest": 1000}),
    "length: depth": (SMALL, 1000, "depth", {"pairs": 20}),
    "length: attention": (SMALL, 1000, "attention", {"examples": 100, "ablation_examples": 20}),
    "length: geometry": (SMALL, 1000, "geometry", {"permutations": 20}),
    "length: probing": (SMALL, 1000, "probing", {"controls": (), "subsets": 1, "train": 5000}),
    "length: patching": (SMALL | {"layers": 2}, 1000, "patching", {"pairs": 10, "grids": FIRST}),
    "sequences: generalization": (SMALL, 20, "generalization", {"sequences": 10_000}),
    "sequences: geometry": (WIDE, 8, "geometry", {"sequences": 40_960, "permutations": 20}),
    "sequences: probing": (
        WIDE, 8, "probing",
        {"controls": (), "targets": ("parity",), "positions": ("last",), "most_lengths": 1,
         "train": 40_000, "test": 20_000, "max_iterations": 3},
    ),
    "pairs: patching": (SMALL, 30, "patching", {"pairs": 2000, "grids": FIRST}),
    "parameters: generalization": (LARGE, 16, "generalization", {"sequences": 50}),
    "parameters: patching": (LARGE, 6, "patching", {"pairs": 2, "grids": FIRST}),
}  # fmt: skip
"""Name -> size of a GPT-2, length, lens and its settings."""

REPORT = "length: report"
REPORTED: dict[str, dict[str, Any]] = {
    "generalization": {"sequences": 20, "longest": 1000},
    "depth": {"pairs": 2},
    "attention": {"examples": 10, "ablation_examples": 5, "relabelings": 1, "controls": 1},
    "geometry": {"sequences": 200, "permutations": 5},
    "probing": {"controls": (), "subsets": 1, "train": 400, "test": 200, "max_iterations": 20},
    "patching": {"pairs": 6},
}
"""Few sequences and pairs: they cost time, but results take as much space as of many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--free", type=float, default=1e9, help="bytes of memory that count as free"
    )
    parser.add_argument("--only", default="", help="only cases that match this pattern")
    parser.add_argument("--case", choices=[*CASES, REPORT], help="run one case in this process")
    options = parser.parse_args()
    if options.case:
        run = measure_report if options.case == REPORT else partial(measure, options.case)
        run(int(options.free))
        return
    print(
        "| case | weights | must hold | used beyond weights | seconds |\n|---|---|---|---|---|",
        flush=True,
    )
    failed = False
    for name in [*CASES, REPORT]:
        if re.search(options.only, name):
            command = [sys.executable, __file__, "--case", name, "--free", str(options.free)]
            failed |= subprocess.run(command, check=False).returncode != 0
    sys.exit(failed)


def measure(name: str, free: int) -> None:
    """Run a case, print its peak memory, and exit with status 1 if that is too much."""
    device.free_bytes = lambda _: free  # before the lenses import it
    import statetrace as st
    from statetrace.models import build
    from statetrace.models.spec import ModelSpec

    size, length, lens, settings = CASES[name]
    model = build(ModelSpec("gpt2", **size), 7, 1001, seed=0)
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    small = build(ModelSpec("gpt2", layers=1, width=16, heads=1), 7, 17, seed=0)
    st.load(small, group="S3", length=5).analyze([lens])  # load the libraries first
    tracked = st.load(model, group="S3", length=length)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    began = time.perf_counter()
    tracked.analyze([lens], **settings)
    used, seconds = memory("VmHWM") - before, time.perf_counter() - began
    rows = settings.get("sequences", 0) + settings.get("train", 0) + settings.get("test", 0)
    held = 4 * (size["layers"] + 1) * rows * size["width"] if lens in HOLDING else 0
    numbers = [f"{count / 1e6:,.0f} MB" for count in (weights, held, used)]
    print(f"| {name} | {' | '.join(numbers)} | {seconds:.0f} |", flush=True)
    sys.exit(used > free + held)


def measure_report(free: int) -> None:
    """Write the report of a run with all lenses, and do as `measure` does."""
    import torch

    import statetrace as st
    from statetrace.models import build
    from statetrace.models.spec import ModelSpec

    model = build(ModelSpec("gpt2", **SMALL), 7, 1001, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:  # else answers and attention are all alike
                parameter.mul_(8)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tracked = st.load(folder, group="S3", length=1000, out=f"{folder}/run")
        for lens, settings in REPORTED.items():
            tracked.analyze([lens], **settings)
        began = time.perf_counter()
        command = [sys.executable, "-m", "statetrace", "report", f"{folder}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        page = Path(folder, "run", "report.html").stat().st_size
    used = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    numbers = f"page of {page / 1e6:.1f} MB | {used / 1e6:,.0f} MB in all | {seconds:.0f}"
    print(f"| {REPORT} | | {numbers} |", flush=True)
    sys.exit(used > free)


def memory(what: str) -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{what}:\s+(\d+)", status)[0])


if __name__ == "__main__":
    main()
