"""Numbers of permutations as products of swaps, and of algorithms that run at several lengths."""

from __future__ import annotations

import numpy as np

from reproduction.measured import Measure, Measured
from reproduction.measures.theory import GROUPS, KNOWN, LARGEST, SIGNATURES
from reproduction.predicted import predicted
from reproduction.results import Results
from statetrace.groups import Group, group


def swaps(found: Results) -> Measured:
    """Of the permutations of 2 to LARGEST objects, the share that are products of swaps, with a
    parity that is that of the least number of swaps."""
    right, n, most = 0, 0, {}
    for objects in range(2, LARGEST + 1):
        of = group(f"S{objects}")
        assert of.parity is not None
        needed = swaps_needed(of)
        right += int(((needed >= 0) & (needed % 2 == of.parity)).sum())
        n += of.order
        most[of.name] = int(needed.max())
    words = "at most " + ", ".join(f"{count} ({name})" for name, count in most.items())
    return Measured(right / n, n, "permutations", unit="share", words=f"swaps needed: {words}",
                    sources=GROUPS)  # fmt: skip


def swaps_needed(of: Group) -> np.ndarray:
    """The least number of swaps whose product each element is [order]; -1 where there is none."""
    moved = np.array([sum(a != b for a, b in zip(label, of.labels[of.identity], strict=True))
                      for label in of.labels])  # fmt: skip
    needed = np.full(of.order, -1)
    needed[of.identity], here, step = 0, np.array([of.identity]), 0
    while len(here):
        step += 1
        after = np.unique(of.table[here][:, moved == 2])
        here = after[needed[after] < 0]
        needed[here] = step
    return needed


def swap_example(found: Results) -> Measured:
    """Of the two actions of Figure 1A, how many are what is said: the first a swap, the second
    not."""
    s5 = group("S5")
    needed = swaps_needed(s5)
    counts = [int(needed[s5.index(label)]) for label in ("42315", "12534")]
    right = (counts[0] == 1) + (counts[1] != 1)
    words = f"42315 takes {counts[0]}, 12534 takes {counts[1]}"
    return Measured(right / 2, 2, "actions", unit="share", words=words, sources=GROUPS)


def odd_ones(found: Results) -> Measured:
    """How many odd elements S3 has; in words, of how many."""
    s3 = group("S3")
    assert s3.parity is not None
    odd = [label for label, parity in zip(s3.labels, s3.parity, strict=True) if parity == 1]
    return Measured(len(odd), s3.order, "elements", words=", ".join(odd), sources=GROUPS)


def more_layers(algorithm: str, target: str, lengths: tuple[int, int] = (8, 32)) -> Measure:
    """How many layers more an algorithm needs at the longer of two lengths until a probe of a
    target ("state", "parity linear"), or all of the sequence if it is "patching", is there."""

    def measure(found: Results) -> Measured:
        layers = {length: _layers(algorithm, target, length) for length in lengths}
        words = ", ".join(f"{layer} at length {length}" for length, layer in layers.items())
        one, two = layers.values()
        words = f"the same number at both: {words}" if one == two else words
        return Measured(two - one, len(lengths), "lengths", unit="more layers", words=words,
                        sources=(SIGNATURES,))  # fmt: skip

    return measure


def _layers(algorithm: str, target: str, length: int) -> int:
    made = predicted(algorithm, length)
    if target == "patching":
        there = np.array([front == length for front in made.restores("opposite")])
    else:
        there = np.array([row.all() for row in made.probes()[target] >= KNOWN])
    assert there.any()
    return int(there.argmax())
