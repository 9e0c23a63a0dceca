"""The paper's statements about groups and algorithms (claim 1): 27 hold, one is an erratum."""

import itertools
import json
import re
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from reproduction.claim import load_claims
from statetrace.groups import arrange, group
from statetrace.groups.notation import NOTATIONS
from statetrace.mechanisms.signatures import signature

KNOWN = 0.99
S3_TO_S6 = [f"S{n}" for n in range(3, 7)]


@cache
def predicted(algorithm, length, pairs=200):
    return signature(algorithm, "S3", length, pairs=pairs)


def swaps_needed(name):
    """The least number of swaps whose product each element is."""
    members = group(name)
    identity = members.labels[members.identity]
    swaps = [g for g, label in enumerate(members.labels)
             if sum(a != b for a, b in zip(label, identity, strict=True)) == 2]  # fmt: skip
    needed, frontier = {members.identity: 0}, [members.identity]
    while frontier:
        after = {int(members.table[g, s]): needed[g] + 1 for g in frontier for s in swaps}
        frontier = [g for g in after if g not in needed]
        needed |= {g: after[g] for g in frontier}
    return [needed[g] for g in range(members.order)]


def generators(s3):
    """a = (23) and b = (123), by what they do to three objects."""
    return [
        s3.index(next(s for s in s3.labels if arrange(s, "123", s3.notation) == list(after)))
        for after in ("132", "312")
    ]


def layers_to(algorithm, target, length):
    made = predicted(algorithm, length)
    if target == "patching":
        reached = [front == length for front in made.restores("opposite")]
    else:
        reached = [row.all() for row in made.probes()[target] >= KNOWN]
    return reached.index(True)


def known_lengths(algorithm, target="state", length=32):
    return [int(row.sum()) for row in predicted(algorithm, length).probes()[target] >= KNOWN]


def plateau(opposite_too, pairs=1000):
    """Mean restoration of the parity-associative algorithm; both kinds of pairs count half each."""
    made = predicted("parity-associative", 32, pairs)
    same, opposite = (made.patching["prefix", split] for split in ("same", "opposite"))
    here = (same >= 0.5) & ((opposite >= 0.5) == opposite_too)
    return float((same[here].mean() + opposite[here].mean()) / 2)


def composes():
    s5 = group("S5")
    product = s5.labels[s5.product("42315,12534")]
    return (product, "".join(arrange(product, "ABCDE"))) == ("32514", "DBAEC")


def paa_layers():
    made = predicted("parity-associative", 32)
    parity, rest = (made.restores(split).index(32) for split in ("opposite", "same"))
    return (parity, rest - parity) == (1, 5)


def constant(algorithm, target):
    return layers_to(algorithm, target, 8) == layers_to(algorithm, target, 32)


def s3_is_d3():
    d3 = group("D3")
    rotation = next(g for g in range(6) if d3.product([g] * 3) == d3.identity != g)
    reflection = next(g for g in range(6) if g not in d3.subgroup([rotation]))
    words = list(itertools.product(range(3), range(2)))
    for notation in NOTATIONS:
        s3 = group("S3", notation)
        a, b = generators(s3)
        here = [s3.product([b] * i + [a] * j) for i, j in words]
        there = [d3.product([rotation] * i + [reflection] * j) for i, j in words]
        to = np.empty(6, dtype=int)
        to[here] = there
        if len(set(here)) < 6 or (to[s3.table] != d3.table[np.ix_(to, to)]).any():
            return False
    return True


def printed_relation():
    s3 = group("S3")
    a, b = generators(s3)
    return any(
        s3.product([a, b][::step]) == s3.product([b, s3.inverse[a]][::step]) for step in (1, -1)
    )


def two_generators():
    digits = {name: "".join(map(str, range(1, int(name[1]) + 1))) for name in S3_TO_S6}
    return all(
        group(name).generates([d[1::-1] + d[2:], d[1:] + d[0]]) for name, d in digits.items()
    )


def printed_clusters():
    s3 = group("S3", "receives")
    number = {label: i for i, pair in enumerate((("123", "213"), ("312", "132"), ("231", "321")))
              for label in pair}  # fmt: skip
    return all(
        number[s3.labels[s3.table[g, s3.index("213")]]]
        == number[label]
        != number[s3.labels[s3.table[g, s3.index("312")]]]
        for g, label in enumerate(s3.labels)
    )


def compiled(algorithm):
    """Whether transformers with computed weights solve S3 by it, in the calibration's measures."""
    file = Path(__file__).parents[2] / "results/calibration/measures.jsonl"
    accuracies = [
        row["accuracy"]
        for row in map(json.loads, file.read_text().splitlines())
        if row["label"] == algorithm and row["spec"]["group"] == "S3" and not row["spec"]["noise"]
    ]
    return len(accuracies) >= 16 and min(accuracies) >= 0.98


DOUBLED = [2**layer for layer in range(6)]
ERRATUM = "ab = ba^-1 for a = (23), b = (123)"
STATEMENTS = {
    "composition: 42315 then 12534 is 32514, and ABCDE becomes DBAEC": composes,
    "the parity of a product is the sum of its factors' parities": lambda: all(
        (of.parity[of.table] == (of.parity[:, None] + of.parity) % 2).all()
        for of in map(group, ("S3", "S5"))
    ),
    "every permutation is a product of swaps, odd or even as their number": lambda: all(
        [count % 2 for count in swaps_needed(name)] == group(name).parity.tolist()
        for name in ("S2", *S3_TO_S6)
    ),
    "42315 is a swap and 12534 is not": lambda: (
        [swaps_needed("S5")[group("S5").index(label)] == 1 for label in ("42315", "12534")]
        == [True, False]
    ),
    "three elements of S3 are odd": lambda: group("S3").parity.sum() == 3,
    "associative: log2 n layers": lambda: (
        predicted("associative", 32).restores("opposite")[:6] == DOUBLED
    ),
    "sequential: a layer per action after the first": lambda: (
        predicted("sequential", 32).restores("opposite").index(32) == 31
    ),
    "associative: layer l shows the state of 2^l lengths": lambda: (
        known_lengths("associative") == DOUBLED
    ),
    "sequential: layer l shows the state of l lengths, counted from the first action": lambda: (
        known_lengths("sequential") == list(range(1, 33))
    ),
    "sequential: parity as many lengths as the state": lambda: (
        known_lengths("sequential", "parity linear") == list(range(1, 33))
    ),
    "associative: parity as many lengths as the state": lambda: (
        known_lengths("associative", "parity linear") == DOUBLED
    ),
    "parallel: layers for patching do not depend on length": lambda: constant(
        "parallel", "patching"
    ),
    "parallel: layers for the state do not depend on length": lambda: constant("parallel", "state"),
    "parallel: layers for parity do not depend on length": lambda: constant(
        "parallel", "parity linear"
    ),
    "PAA: layers for parity do not depend on length": lambda: constant(
        "parity-associative", "parity linear"
    ),
    "PAA: after the parity layer the known lengths double": lambda: (
        known_lengths("parity-associative") == [1, *DOUBLED]
    ),
    "PAA: opposite parity at once, then log2 n layers for the same parity": paa_layers,
    "PAA: a region in which about half of the answer is restored (0.58 with balanced pairs)": (
        lambda: abs(plateau(opposite_too=False) - 0.584) < 0.001
    ),
    "PAA: a region in which all of the answer is restored": lambda: (
        plateau(opposite_too=True) == pytest.approx(1, abs=1e-6)
    ),
    "S5 is the smallest symmetric group that is not solvable": lambda: (
        [group(f"S{n}").is_solvable() for n in range(2, 6)] == [True, True, True, False]
    ),
    "S3 is D3, generated by (23) and (123)": s3_is_d3,
    ERRATUM: printed_relation,
    "S_n is generated by a swap of 1 and 2 and the cycle of all n": two_generators,
    "the swap of 1 and 2 stays inside App. D's clusters, a 3-cycle leaves them": printed_clusters,
} | {
    f"a transformer can carry out the {name} algorithm on S3": partial(compiled, name)
    for name in ("sequential", "associative", "parity-associative", "parallel")
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement(name):
    assert STATEMENTS[name]() == (name != ERRATUM)


def test_the_dihedral_relation_holds():
    s3 = group("S3")
    a, b = generators(s3)
    for step in (1, -1):
        assert s3.product([a, b][::step]) == s3.product([s3.inverse[b], a][::step])


def test_the_page_counts_these():
    finding = load_claims()[0].finding
    assert re.findall(r"^(\d+) of (\d+)", finding) == [("27", "28")]
    assert len(STATEMENTS) == 28


def test_app_e_ends_where_it_says_in_one_notation_only():
    ends = {
        notation: (s3 := group("S3", notation)).labels[s3.product(["132", "312", "213"])]
        for notation in NOTATIONS
    }
    assert ends == {"moves": "312", "receives": "123"}


def test_printed_topic_tables_are_distributions():
    data = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
    sums = [sum(row) for name, table in data.items() if name != "tokens" for row in table]
    assert len(sums) == 8
    assert max(abs(total - 1) for total in sums) < 0.003
