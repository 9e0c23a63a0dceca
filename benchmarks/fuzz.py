"""Feed mutated files, names and requests to everything that reads them, and report crashes.

Each target has valid inputs to start from. An input is refused with a sentence (StatetraceError, or
OSError for a file that cannot be read) or accepted; any other exception is a crash, and so is
taking more than LIMIT seconds. Crashing inputs are written to tests/fuzz_cases/TARGET, where a test
repeats them from then on.

    python benchmarks/fuzz.py                              # a million inputs, about 15 minutes
    python benchmarks/fuzz.py --target recipe --count 1000 --seed 3

Cost: 20 microseconds (names) to 20 milliseconds (checkpoints) per input.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.fuzz_targets import SHARES, Target, make_targets  # noqa: E402
from statetrace.errors import StatetraceError  # noqa: E402

CASES = ROOT / "tests" / "fuzz_cases"
LIMIT = 5
"""Seconds that an input may take."""

LONGEST = 20_000
"""Bytes of an input."""

NUMBERS = (b"0", b"-1", b"1e999", b"NaN", b"9" * 30, b"2147483648", b"0.5", b"-0", b"1e-9")
PIECES = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b"\\u0000", b"\xff\xfe", b"\0", b"\n", b"=",
    b"null", b"true", b"[[", b"{}", b"[]", b"..", b"/", b"\x1b[31m", b"'''", b"# ", b":", b",",
    "\u202e".encode(), b"x" * 300, b"[" * 300, b'{"a":' * 300,
)  # fmt: skip


class TooSlow(Exception):
    """An input took more than LIMIT seconds."""


def mutated(target: Target, chance: random.Random) -> bytes:
    """A seed of the target after one to four random changes."""
    body = chance.choice(target.seeds)
    for _ in range(chance.randint(1, 4)):
        body = chance.choice(CHANGES)(body, target, chance)
    return body[:LONGEST]


def _flip(body: bytes, target: Target, chance: random.Random) -> bytes:
    if not body:
        return b"0"
    at = chance.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]


def _delete(body: bytes, target: Target, chance: random.Random) -> bytes:
    at = chance.randint(0, len(body))
    return body[:at] + body[at + chance.choice((1, 2, 8, 64, 10**6)) :]


def _insert(body: bytes, target: Target, chance: random.Random) -> bytes:
    at = chance.randint(0, len(body))
    return body[:at] + chance.choice((*PIECES, *NUMBERS, *target.tokens)) + body[at:]


def _number(body: bytes, target: Target, chance: random.Random) -> bytes:
    """Replace a number by a harder one."""
    digits = [at for at, byte in enumerate(body) if 48 <= byte <= 57]
    if not digits:
        return _insert(body, target, chance)
    start = end = chance.choice(digits)
    while end < len(body) and 48 <= body[end] <= 57:
        end += 1
    return body[:start] + chance.choice(NUMBERS) + body[end:]


def _splice(body: bytes, target: Target, chance: random.Random) -> bytes:
    other = chance.choice(target.seeds)
    return body[: chance.randint(0, len(body))] + other[chance.randint(0, len(other)) :]


def _repeat(body: bytes, target: Target, chance: random.Random) -> bytes:
    at = chance.randint(0, len(body))
    return body[:at] + body[at : at + 40] * chance.choice((2, 50)) + body[at + 40 :]


CHANGES = (_flip, _delete, _insert, _number, _splice, _repeat)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TooSlow(f"it took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def crash(read: Callable[[bytes], object], body: bytes) -> str | None:
    """The traceback of an input that crashes; None for one that is accepted or refused."""
    try:
        with limited(), contextlib.redirect_stderr(io.StringIO()):
            read(body)
    except (StatetraceError, OSError):
        return None
    except Exception:
        return traceback.format_exc()
    return None


@dataclass
class Count:
    """What became of the inputs of a target."""

    tried: int = 0
    seconds: float = 0.0
    crashes: int = 0


def fuzz(
    target: Target, count: int, seed: int, keep: Path | None = CASES
) -> tuple[Count, list[str]]:
    """Try `count` inputs; returns the counts and one traceback per kind of crash."""
    chance, result, kinds = random.Random(f"{target.name} {seed}"), Count(), {}
    began = time.perf_counter()
    for _ in range(count):
        body = mutated(target, chance)
        result.tried += 1
        trace = crash(target.read, body)
        if trace is None:
            continue
        result.crashes += 1
        lines = [line for line in trace.splitlines() if line.startswith("  File")]
        kind = "\n".join([*lines[-2:], trace.splitlines()[-1][:60]])
        if kind not in kinds:
            kinds[kind] = trace
            if keep is not None:
                folder = keep / target.name
                folder.mkdir(parents=True, exist_ok=True)
                (folder / hashlib.sha256(body).hexdigest()[:12]).write_bytes(body)
    result.seconds = time.perf_counter() - began
    return result, [*kinds.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Feed mutated input to everything that reads it.")
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="", help="only targets whose name contains this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory()) as folder:
        targets = [t for t in make_targets(Path(folder)) if options.target in t.name]
        shares = sum(SHARES[target.name] for target in targets)
        total = Count()
        print(f"{'target':<16}{'inputs':>10}{'seconds':>9}{'crashes':>9}", flush=True)
        for target in targets:
            count = round(options.count * SHARES[target.name] / shares)
            result, traces = fuzz(target, count, options.seed)
            total.tried += result.tried
            total.seconds += result.seconds
            total.crashes += result.crashes
            print(f"{target.name:<16}{result.tried:>10,}{result.seconds:>9.0f}{result.crashes:>9}")
            for trace in traces:
                print("    " + "\n    ".join(trace.splitlines()[-7:]), flush=True)
    print(f"{'all':<16}{total.tried:>10,}{total.seconds:>9.0f}{total.crashes:>9}")
    sys.exit(total.crashes > 0)


def _memory() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    main()
