"""Numbers that need no training: an example, algorithms as programs, compiled models."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files

import numpy as np

from reproduction.measured import Measure, Measured
from reproduction.predicted import predicted
from reproduction.results import Results
from statetrace.groups import Group, arrange, group
from statetrace.groups.notation import NOTATIONS
from statetrace.lenses.parts.intervals import wilson

COMPILED = "results/calibration/measures.jsonl"
SIGNATURES = "statetrace/mechanisms/signatures.py"
KNOWN = 0.99
"""Accuracy from which on a probe knows; by running algorithms it is 1 or much less."""
GROUPS = ("statetrace/groups/families.py", "statetrace/groups/cayley.py")
LARGEST = 6
"""Symmetric groups up to this one are tried."""


def composed_example(found: Results) -> Measured:
    """How many of the two results of Figure 1A come out."""
    s5 = group("S5")
    at = {label: number for number, label in enumerate(s5.labels)}
    product = s5.labels[int(s5.table[at["42315"]][at["12534"]])]
    order = "".join(arrange(product, "ABCDE"))
    right = (product == "32514") + (order == "DBAEC")
    return Measured(right / 2, 2, "results", unit="share", words=f"{product}, {order}",
                    sources=("statetrace/groups/notation.py",))  # fmt: skip


def smallest_unsolvable(found: Results) -> Measured:
    """The least n for which S_n is not solvable."""
    tried = range(2, LARGEST + 1)
    series = {n: [len(part) for part in group(f"S{n}").derived_series()] for n in tried}
    value = next(n for n, orders in series.items() if orders[-1] > 1)
    said = "; ".join(f"S{n} {' '.join(map(str, series[n]))}" for n in range(3, value + 1))
    alternating = group(f"A{value}")
    solvable = "is" if alternating.is_solvable() else "is not either"
    words = (
        f"orders of the derived series {said}; A{value}, of order {alternating.order}, {solvable}"
    )
    return Measured(value, len(series), "groups", words=words, sources=GROUPS)


def s3_is_d3(found: Results) -> Measured:
    """In how many notations (23) and (123) generate S3 and go to generators of D3 in a way that
    keeps all products."""
    right = sum(_generate_d3(group("S3", notation)) for notation in NOTATIONS)
    words = "a = (23) to a reflection, b = (123) to a rotation, for all 36 products"
    return Measured(right / len(NOTATIONS), len(NOTATIONS), "notations", unit="share", words=words,
                    sources=GROUPS)  # fmt: skip


def _generate_d3(of: Group) -> bool:
    """Every element is b^i a^j in one way, in S3 as in D3; the map between them is tried."""
    d3 = group("D3")
    rotation = next(g for g in range(6) if d3.product([g] * 3) == d3.identity != g)
    reflection = next(g for g in range(6) if g not in d3.subgroup([rotation]))
    words = [(i, j) for i in range(3) for j in range(2)]
    here, there = (
        [g.product([b] * i + [a] * j) for i, j in words]
        for g, a, b in ((of, *_generators(of)), (d3, reflection, rotation))
    )
    if len(set(here)) < 6 or len(set(there)) < 6:
        return False
    to = np.empty(6, dtype=int)
    to[here] = there
    return bool((to[of.table] == d3.table[np.ix_(to, to)]).all())


def _generators(s3: Group) -> tuple[int, int]:
    """a = (23) and b = (123): 1 to 2 to 3 to 1, by what they do to three objects."""
    a, b = (
        next(s for s in s3.labels if arrange(s, "123", s3.notation) == list(after))
        for after in ("132", "312")
    )
    return s3.index(a), s3.index(b)


def printed_relation(found: Results) -> Measured:
    """In how many ways of reading products (a first, or b first) appendix A's relation holds,
    ab = b a^-1; in words, the one that makes S3 dihedral, ab = b^-1 a."""
    s3 = group("S3")
    a, b = _generators(s3)
    printed, dihedral, said = 0, 0, []
    for read, first in (("left to right", "a"), ("right to left", "b")):
        step = 1 if first == "a" else -1
        ab, ba, b_a = (
            s3.product(pair[::step]) for pair in ([a, b], [b, s3.inverse[a]], [s3.inverse[b], a])
        )
        printed += ab == ba
        dihedral += ab == b_a
        said.append(f"{read} ab = {s3.labels[ab]}, ba⁻¹ = {s3.labels[ba]}")
    words = f"{'; '.join(said)}; ab = b⁻¹a holds in {dihedral} of {len(said)}"
    return Measured(printed / len(said), len(said), "readings", unit="share", words=words,
                    sources=GROUPS)  # fmt: skip


def two_generators(found: Results) -> Measured:
    """Of the symmetric groups, the share that a swap of 1 and 2 and the cycle of all generate."""
    made = {}
    for n in range(3, LARGEST + 1):
        digits = "".join(map(str, range(1, n + 1)))
        swap, cycle = digits[1::-1] + digits[2:], digits[1:] + digits[0]
        made[n] = group(f"S{n}").generates([swap, cycle])
    words = ", ".join(f"S{n}" for n, all_of_it in made.items() if all_of_it)
    return Measured(sum(made.values()) / len(made), len(made), "groups", unit="share", words=words,
                    sources=GROUPS)  # fmt: skip


def printed_clusters(found: Results) -> Measured:
    """Of S3's states, the share that a swap of 1 and 2 keeps inside its cluster of appendix D and a
    3-cycle does not, with labels read as in appendix E; in words, also as in section 2.2."""
    clusters = (("123", "213"), ("312", "132"), ("231", "321"))
    number = {label: i for i, pair in enumerate(clusters) for label in pair}
    right = {}
    for notation in NOTATIONS:
        s3 = group("S3", notation)
        swap, cycle = s3.index("213"), s3.index("312")
        swapped, turned = (
            [number[s3.labels[after]] for after in s3.table[:, by]] for by in (swap, cycle)
        )
        inside = [number[label] for label in s3.labels]
        right[notation] = sum(
            here == kept != left for here, kept, left in zip(inside, swapped, turned, strict=True)
        )
    words = ", ".join(f"{count} with labels read as '{name}'" for name, count in right.items())
    return Measured(right["receives"] / 6, 6, "states", unit="share", words=words,
                    sources=GROUPS)  # fmt: skip


def told_example(found: Results) -> Measured:
    """Whether the sentences of appendix E's example end where it says."""
    ends = {
        notation: s3.labels[s3.product(["132", "312", "213"])]
        for notation in NOTATIONS
        for s3 in [group("S3", notation)]
    }
    words = ", ".join(f"{end} with labels read as '{name}'" for name, end in ends.items())
    return Measured(float(ends["receives"] == "123"), 1, "examples", unit="share", words=words,
                    sources=("statetrace/groups/notation.py",))  # fmt: skip


def signature_fronts(algorithm: str, length: int) -> Measure:
    """Layers until the whole sequence is in its last token, by running the algorithm."""

    def measure(found: Results) -> Measured:
        made = predicted(algorithm, length)
        fronts = made.restores("opposite")
        layers = next(i for i, front in enumerate(fronts) if front == length)
        words = "actions to restore: " + " ".join(map(str, fronts[:6])) + (" …" * (len(fronts) > 6))
        return Measured(layers, made.pairs["opposite"], "pairs", unit="layers", words=words,
                        sources=(SIGNATURES,))  # fmt: skip

    return measure


def probed_share(
    algorithm: str, length: int, share: Callable[[int], float], target: str = "state"
) -> Measure:
    """How far the share of lengths whose state (or other target) can be read from a layer, by
    running the algorithm, is at most from a formula of the layer."""

    def measure(found: Results) -> Measured:
        known = predicted(algorithm, length).probes()[target] >= KNOWN  # [rows, lengths]
        off = [abs(row.mean() - share(layer)) for layer, row in enumerate(known)]
        said = " ".join(str(row.sum()) for row in known[:6]) + " …" * (len(known) > 6)
        return Measured(float(max(off)), len(off), "layers", sources=(SIGNATURES,),
                        words=f"largest distance; of {length} lengths by layer {said}")  # fmt: skip

    return measure


def complement_layers(length: int) -> Measure:
    """Layers that the parity-associative algorithm needs for pairs of equal parity after it has
    settled those of opposite parity."""

    def measure(found: Results) -> Measured:
        made = predicted("parity-associative", length)
        fronts = {split: made.restores(split) for split in ("same", "opposite")}
        parity, rest = (fronts[split].index(length) for split in ("opposite", "same"))
        words = ", ".join(
            f"{split} parity {' '.join(map(str, here))}" for split, here in fronts.items()
        )
        return Measured(rest - parity, made.pairs["all"], "pairs", unit="layers",
                        words=f"actions to restore: {words}", sources=(SIGNATURES,))  # fmt: skip

    return measure


def plateau_in_theory(length: int, pairs: int = 1000, opposite_too: bool = False) -> Measure:
    """Mean NLD of the parity-associative algorithm where pairs of equal parity are restored and
    those of opposite parity are not, or are as well; the interval is that of how many pairs are of
    either kind."""

    def measure(found: Results) -> Measured:
        made = predicted("parity-associative", length, pairs)
        whole, same, opposite = (
            made.patching["prefix", split] for split in ("all", "same", "opposite")
        )
        here = (same >= 0.5) & ((opposite >= 0.5) == opposite_too)
        words = (
            f"over {int(here.sum())} cells; pairs of equal parity {same[here].mean():.2f}, of "
            f"opposite parity {opposite[here].mean():.2f}; {made.pairs['same']} of {pairs} equal"
        )
        each = float(same[here].mean()), float(opposite[here].mean())
        n = made.pairs["all"]
        low, high = (
            float(share * each[0] + (1 - share) * each[1])
            for share in wilson(np.array(made.pairs["same"]), n)
        )
        return Measured(float(whole[here].mean()), n, "pairs", low, high, words=words,
                        sources=(SIGNATURES,))  # fmt: skip

    return measure


def summed_parity(found: Results) -> Measured:
    """Of all products of two in S3 and S5, the share whose parity is the sum of both modulo 2."""
    right, n = 0, 0
    for of in map(group, ("S3", "S5")):
        assert of.parity is not None
        parity = of.parity.astype(int)
        right += int((parity[of.table] == (parity[:, None] + parity) % 2).sum())
        n += of.order**2
    return Measured(right / n, n, "products", unit="share", sources=GROUPS)


def compiled_accuracy(algorithm: str, of: str) -> Measure:
    """The least accuracy among models whose weights were computed, without noise."""

    def measure(found: Results) -> Measured:
        right = [
            row["accuracy"]
            for row in found.lines(COMPILED)
            if row["label"] == algorithm and row["spec"]["group"] == of and not row["spec"]["noise"]
        ]
        value = min(right) if right else None
        return Measured(value, len(right), "compiled models", unit="share", words="the least",
                        sources=(COMPILED,))  # fmt: skip

    return measure


TABLES = "statetrace/tasks/topic_tables.json"
ROUNDED = 0.003
"""How far six numbers of three digits may be from 1 in sum, each rounded by half of its last."""


def topic_tables(found: Results) -> Measured:
    """Of the printed rows p(token | topic), the share that sum to 1 as far as they were rounded."""
    data = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
    sums = np.array([sum(row) for name, table in data.items() if name != "tokens" for row in table])
    off = np.abs(sums - 1)
    words = f"{len(data) - 1} tables; at most {off.max():.1g} from 1"
    return Measured(float((off <= ROUNDED).mean()), len(sums), "topics", unit="share", words=words,
                    sources=(TABLES,))  # fmt: skip
