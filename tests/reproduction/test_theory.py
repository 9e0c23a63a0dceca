"""The paper's statements about groups and algorithms (claim 1): 27 hold, one is an erratum."""

import itertools
import json
import re
from functools import cache
from importlib.resources import files

import numpy as np
import pytest

from reproduction.claim import load_claims
from statetrace.groups import arrange, group
from statetrace.groups.notation import NOTATIONS
from statetrace.mechanisms.signatures import signature

KNOWN = 0.99
S3_TO_S6 = [f"S{n}" for n in range(3, 7)]
HOLDS, ERRATUM = True, False
STATEMENTS = {}
"""Name -> (check, whether it should hold)."""


def statement(name, holds=HOLDS):
    def add(check):
        STATEMENTS[name] = (check, holds)
        return check

    return add


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


@statement("composition: 42315 then 12534 is 32514, and ABCDE becomes DBAEC")
def composition():
    s5 = group("S5")
    product = s5.labels[int(s5.table[s5.index("42315")][s5.index("12534")])]
    return (product, "".join(arrange(product, "ABCDE"))) == ("32514", "DBAEC")


@statement("the parity of a product is the sum of its factors' parities")
def summed():
    return all(
        (of.parity[of.table] == (of.parity[:, None] + of.parity) % 2).all()
        for of in map(group, ("S3", "S5"))
    )


@statement("every permutation is a product of swaps, odd or even as their number")
def products_of_swaps():
    return all(
        [count % 2 for count in swaps_needed(name)] == group(name).parity.tolist()
        for name in ("S2", *S3_TO_S6)
    )


@statement("42315 is a swap and 12534 is not")
def swap_example():
    needed = swaps_needed("S5")
    return needed[group("S5").index("42315")] == 1 != needed[group("S5").index("12534")]


@statement("three elements of S3 are odd")
def three_odd():
    return int(group("S3").parity.sum()) == 3 == group("S3").order - 3


@statement("associative: log2 n layers")
def associative_layers():
    return predicted("associative", 32).restores("opposite")[:6] == [1, 2, 4, 8, 16, 32]


@statement("sequential: a layer per action after the first")
def sequential_layers():
    return predicted("sequential", 32).restores("opposite").index(32) == 31


@statement("associative: layer l shows the state of 2^l lengths")
def associative_probe():
    return known_lengths("associative") == [2**layer for layer in range(6)]


@statement("sequential: layer l shows the state of l lengths, counted from the first action")
def sequential_probe():
    return known_lengths("sequential") == list(range(1, 33))


@statement("sequential: parity as many lengths as the state")
def sequential_parity_probe():
    return known_lengths("sequential", "parity linear") == list(range(1, 33))


@statement("associative: parity as many lengths as the state")
def associative_parity_probe():
    return known_lengths("associative", "parity linear") == [2**layer for layer in range(6)]


for _name, _algorithm, _target in (
    ("parallel: layers for patching do not depend on length", "parallel", "patching"),
    ("parallel: layers for the state do not depend on length", "parallel", "state"),
    ("parallel: layers for parity do not depend on length", "parallel", "parity linear"),
    ("PAA: layers for parity do not depend on length", "parity-associative", "parity linear"),
):
    STATEMENTS[_name] = (
        lambda a=_algorithm, t=_target: layers_to(a, t, 8) == layers_to(a, t, 32),
        HOLDS,
    )


@statement("PAA: after the parity layer the known lengths double")
def paa_state_probe():
    return known_lengths("parity-associative") == [2 ** max(0, layer - 1) for layer in range(7)]


@statement("PAA: opposite parity at once, then log2 n layers for the same parity")
def paa_layers():
    made = predicted("parity-associative", 32)
    parity, rest = (made.restores(split).index(32) for split in ("opposite", "same"))
    return (parity, rest - parity) == (1, 5)


@statement("PAA: a region in which about half of the answer is restored (0.58 with balanced pairs)")
def paa_half():
    return abs(plateau(opposite_too=False) - 0.584) < 0.001


@statement("PAA: a region in which all of the answer is restored")
def paa_whole():
    return plateau(opposite_too=True) == pytest.approx(1, abs=1e-6)


def compiled(algorithm, root):
    lines = (root / "results/calibration/measures.jsonl").read_text().splitlines()
    accuracies = [
        row["accuracy"]
        for row in map(json.loads, lines)
        if row["label"] == algorithm and row["spec"]["group"] == "S3" and not row["spec"]["noise"]
    ]
    return len(accuracies) >= 16 and min(accuracies) >= 0.98


for _algorithm in ("sequential", "associative", "parity-associative", "parallel"):
    STATEMENTS[f"a transformer can carry out the {_algorithm} algorithm on S3"] = (
        lambda root, a=_algorithm: compiled(a, root),
        HOLDS,
    )


@statement("S5 is the smallest symmetric group that is not solvable")
def not_solvable():
    return [group(f"S{n}").is_solvable() for n in range(2, 6)] == [True, True, True, False]


@statement("S3 is D3, generated by (23) and (123)")
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


@statement("ab = ba^-1 for a = (23), b = (123)", ERRATUM)
def printed_relation():
    s3 = group("S3")
    a, b = generators(s3)
    return any(
        s3.product([a, b][::step]) == s3.product([b, s3.inverse[a]][::step]) for step in (1, -1)
    )


@statement("S_n is generated by a swap of 1 and 2 and the cycle of all n")
def two_generators():
    digits = {name: "".join(map(str, range(1, int(name[1]) + 1))) for name in S3_TO_S6}
    return all(
        group(name).generates([d[1::-1] + d[2:], d[1:] + d[0]]) for name, d in digits.items()
    )


@statement("the swap of 1 and 2 stays inside App. D's clusters, a 3-cycle leaves them")
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


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement(name, request):
    check, holds = STATEMENTS[name]
    needs_root = "root" in check.__code__.co_varnames[: check.__code__.co_argcount]
    assert check(*([request.config.rootpath] if needs_root else [])) == holds


def test_the_dihedral_relation_holds():
    s3 = group("S3")
    a, b = generators(s3)
    for step in (1, -1):
        assert s3.product([a, b][::step]) == s3.product([s3.inverse[b], a][::step])


def test_the_page_counts_these():
    finding = load_claims()[0].finding
    held = sum(holds for _, holds in STATEMENTS.values())
    assert tuple(map(int, re.findall(r"^(\d+) of (\d+)", finding)[0])) == (held, len(STATEMENTS))
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
