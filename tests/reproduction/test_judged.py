"""Tables of judged checkpoints, and the programs of findings that read them."""

import math

import pytest

import statetrace as st
from reproduction import depth, group_mechanisms, trajectories
from reproduction.judged import (
    LEADS,
    LINKS,
    MODELS,
    Judged,
    judged,
    leads,
    measure,
    tables,
    write,
)
from reproduction.statistics import exact_two_sided, permutation_p, sign_test, spearman
from statetrace.runs import Run
from tests.studies.conftest import undisturbed


@pytest.mark.parametrize("algorithm", ["associative", "parity-associative", "parallel"])
def test_tables_name_the_mechanism_as_the_verdict_does(algorithm, tmp_path):
    model = st.compile(algorithm, "S3", length=8)
    row, links = tables(model.evidence(), {"group": "S3", "cell": "it", "step": 5})
    lead = {"cell": "it", "step": 5, "quotient": "parity", "over": "state", "lead": 0.5}
    for name, rows in ((MODELS, [row]), (LINKS, links), (LEADS, [lead])):
        write(tmp_path / name, rows)
    (again,) = judged(tmp_path)
    assert again.leads == {("parity", "state"): 0.5}
    verdict = model.verdict()
    assert again.mechanism == verdict.mechanism == algorithm
    assert again.probabilities == pytest.approx(verdict.probabilities, abs=1e-3)
    assert again["solved"] == 8


def test_studies_are_measured(tmp_path):
    """At every checkpoint or the last; rows of cells that are elsewhere stay."""
    grid = "[grid]\nlayers = [1, 2]"
    study = undisturbed(tmp_path, grid=grid, verdict="standard", dropout=0, steps=12)
    measure(study, tmp_path, every_checkpoint=True, device="cpu")
    every = {(model["cell"], model["layers"], model["step"]) for model in judged(tmp_path)}
    cells = [(cell.name, int(cell.levels["layers"])) for cell in study.plan.cells]
    early = 10
    assert every == {(*cell, step) for cell in cells for step in (6, early, 12)}
    write(tmp_path / MODELS, [model.row for model in judged(tmp_path)] + [{"cell": "elsewhere"}])
    measure(study, tmp_path, device="cpu")
    assert [model["step"] for model in judged(tmp_path)] == [None, 12, 12, 12, 12]
    assert {model["group"] for model in judged(tmp_path)[1:]} == {"S3"}


def test_a_model_that_has_not_learned_has_no_map(tmp_path):
    model = Judged({"group": "S3"}, [])
    assert (model.mechanism, model.map, model.decided) == ("unlearned", None, True)


def checkpoint(step, parity, state=1.0, accuracy=1.0, longest=8):
    """A model of S3 whose links grow by this many layers per doubling, beyond length 6 by none."""
    lengths = [n for n in (2, 3, 4, 6, 8) if n <= longest]
    rows = [
        {"link": name, "kept": 1.0 if name == "parity" else None, "length": n,
         "needed": base + growth * math.log2(min(n, 6)), "error": 0.01,
         "soft": 0.0, "first": 1, "last": 2, "split": 0.0}
        for name, base, growth in (("parity", 1.0, parity), ("state", 3.0, state))
        for n in lengths
    ]  # fmt: skip
    about = {"group": "S3", "training": "growing", "cell": "it", "step": step, "accuracy": accuracy}
    return Judged(about, rows)


def test_growth_is_compared_at_the_same_lengths():
    assert checkpoint(1, 0.5).growth("parity", 6) == pytest.approx(0.5)
    assert checkpoint(1, 0.5).growth("parity", 8) < 0.49
    assert checkpoint(1, 0.5, longest=4).growth("parity", 6) is None


def test_trajectories_begin_where_enough_is_solved():
    models = [checkpoint(9, 0.1), checkpoint(3, 2.0, longest=4), checkpoint(6, 0.9)]
    (path,) = trajectories.trajectories(models, "growing")
    assert path.change("parity") == pytest.approx(-0.8)
    assert path.last.mechanism == "parity-associative"
    assert trajectories.counting([path]) == [path]
    assert not path.returns()
    assert [model["step"] for model in path.measured] == [6, 9]
    assert trajectories.layers(path.measured, "state") == pytest.approx(
        {n: 3 + math.log2(min(n, 6)) for n in (2, 3, 4, 6, 8)}
    )
    (back,) = trajectories.trajectories([checkpoint(3, 0.0), checkpoint(6, 1.6)], "growing")
    assert back.returns()
    assert not trajectories.trajectories(models, "whole")


def test_a_sign_test_counts_both_sides():
    assert sign_test([-1, -2, -1, -3, -1]) == pytest.approx(2 / 32)
    assert sign_test([1, 2, 0, -1]) == 1


def test_permutations_agree_with_counting():
    x = [1, 2, 3, 4]
    value, p = spearman(x, [1, 2, 3, 4])
    assert value == pytest.approx(1)
    assert p == pytest.approx(1 / 24, abs=0.01)
    assert spearman(x, [1, 1, 1, 1]) == (0.0, 1.0)
    assert permutation_p(lambda values: float(values[0]), [0, 1]) == pytest.approx(1, abs=0.01)


def of_depth(task, needed, seeds=range(5)):
    """Models of a task that solve a length from a depth on, and two actions below it."""
    return [
        Judged({"group": "S3", "model": "gpt2", "task": task, "length": n, "layers": d, "seed": s,
                "solved": n if d >= needed(n) + (s == 0) else 2}, [])
        for n in depth.LENGTHS for d in depth.DEPTHS for s in seeds
    ]  # fmt: skip


def test_the_shortest_depth_of_each_law():
    models = of_depth("Z6", lambda n: 1) + of_depth("S3", math.log2)
    models += of_depth("S3-after-topics", lambda n: n / 4)[:-1]
    counted, composed, linear = (depth.shortest(models, "gpt2", task) for task in depth.TASKS)
    assert counted[1] == dict.fromkeys(depth.LENGTHS, 1)
    assert composed[1] == {6: 3, 8: 3, 16: 4, 32: 6}
    assert composed[0][32] == 6  # the next depth that was trained
    assert linear[1] == {6: 2, 8: 2, 16: 4, 32: 8}
    assert 4 not in linear  # a cell of this seed is missing
    assert depth.slope(composed[1]) > 1 > depth.slope(counted[1]) == pytest.approx(0)
    misfits = {name: depth.misfits(each) for name, each in (("log", composed), ("line", linear))}
    assert misfits["line"]["linear"] < misfits["line"]["logarithmic"]
    assert max(depth.misfits(counted).values()) == pytest.approx(0)
    tests = depth.planned_tests(models)
    assert tests["gpt2", "S3", "Z6"] == pytest.approx((1 / 252, 2 / 252))
    assert len(tests) == 2
    assert depth.solved(models, "gpt2", "Z6")[1] == [2, 32, 32, 32, 32]
    assert depth.linear_from(linear) == depth.DEEPER
    assert depth.linear_from(counted) is None
    assert depth.ideal()[0] == composed[1]
    learned = depth.figure(models).panels[1].heat
    assert [row[-1] for row in learned.z] == [0, 0, 0, 0, 5, 5]


def test_failures_deeper_than_the_shortest_depth():
    models = of_depth("S3", math.log2)
    assert depth.deeper_failures(models, "gpt2", "S3", 8) == (0, 14)
    deepest = next(m for m in models if (m["length"], m["layers"], m["seed"]) == (8, 8, 1))
    deepest.row["solved"] = 7
    assert depth.deeper_failures(models, "gpt2", "S3", 8) == (1, 14)


def test_exact_permutations():
    assert depth.exact_permutation([3, 4], [1, 2], "greater") == pytest.approx(1 / 6)
    assert depth.exact_permutation([1, 2], [3, 4], "greater") == 1
    assert depth.exact_permutation([1, 2], [3, 4], "two-sided") == pytest.approx(2 / 6)


def test_leads_in_training(tmp_path):
    run = Run(tmp_path)
    run.write_info({"recipe": {"task": {"group": "S4", "length": 3, "notation": "moves"}}})
    accuracy = {"parity": (1 / 2, 1, 1), "S3": (1 / 6, 1 / 3, 1), "state": (1 / 24, 1 / 12, 1)}
    for step in range(10):
        stage = (step >= 2) + (step >= 6)
        curves = {name: [1.0] + 2 * [float(by[stage])] for name, by in accuracy.items()}
        run.append({"kind": "evaluation", "step": step, "accuracy_by_length": curves})
    shares = {(r["quotient"], r["over"]): r["lead"] for r in leads(run, 9)}
    assert shares["parity", "S3"] == shares["parity", "state"] == pytest.approx(1)
    assert shares["S3", "state"] == pytest.approx(0.2, abs=0.01)  # what parity implies
    assert leads(run, 8) == []


CURVES = {
    "parallel": (0.0, 0.0, 0.0, 0.0),
    "associative": (1.2, 1.2, 0.0, 0.0),
    "parity-associative": (0.0, 1.2, 1.0, 1.0),
    "composed-quotient": (1.6, 1.6, 1.0, 1.0),
    "undecided": (0.8, 1.2, 0.5, None),
}
"""Growth of the first link and of the others, gap between them, and how often the first is kept."""


def of_group(spec, mechanism, lead=0.0, number=4):
    """Models of a group; the lead is that of the coarsest quotient in training."""
    spec = f"reproduction/groups/{spec}" if spec.endswith(".json") else spec
    links = (*(quotient.name for quotient in st.group(spec).chain()), "state")
    first, rest, gap, kept = CURVES.get(mechanism, (0.0,) * 4)
    rows = [
        {"link": link, "kept": None if link == "state" else kept, "length": n,
         "needed": 1 + gap * (at > 0) + (rest if at else first) * math.log2(n / 2),
         "error": 0.01, "soft": 0.0, "first": 1, "last": 2, "split": 0.0}
        for at, link in enumerate(links)
        for n in (2, 3, 4, 6, 8)
    ]  # fmt: skip
    learned = mechanism in CURVES
    leads = [{"quotient": links[0], "over": "state", "lead": lead}]
    return [
        Judged({"group": spec, "cell": f"{spec}-{seed}"}, rows if learned else [], leads)
        for seed in range(number)
    ]


def test_groups_are_compared_by_their_structure():
    models = [
        *of_group("A5", "associative"), *of_group("S3", "parity-associative", 0.6),
        *of_group("S3", "undecided", 0.1, 1), *of_group("D5", "unlearned"),
        *of_group("Z6", "parallel"), *of_group("Z6", "unlearned", number=2),
        *of_group("Z5", "parallel"),
    ]  # fmt: skip
    groups = group_mechanisms.by_group(models)
    assert [*groups] == ["Z5", "Z6", "S3", "D5", "A5"]
    counts = groups["S3"].mechanisms(group_mechanisms.verdict)
    assert counts == {"parity-associative": 4, "undecided": 1}
    claims = group_mechanisms.claims(groups)
    assert sum(claims.pop("not planned: and it is counted")["S3"]) >= 4
    assert not claims.pop("not planned: coarsest quotient before a larger abelianization")
    shares = [
        (group_mechanisms.over_models(flags), group_mechanisms.over_groups(flags))
        for flags in claims.values()
    ]
    counts = [(models.count, models.n) for models, _ in shares]
    assert counts == [(8, 8), (5, 5), (4, 5), (4, 5), (5, 5), (5, 5), (4, 4)]
    assert [(g.count, g.n) for _, g in shares] == [(2, 2), *6 * [(1, 1)]]
    known = group_mechanisms.by_derived_length(groups)
    assert known == {"Z5": (1, 1), "Z6": (1, 1), "S3": (2, pytest.approx(4.4))}
    panels = group_mechanisms.figure(models).panels
    assert sum(len(mark.x) for mark in panels[0].marks if hasattr(mark, "x")) == len(models)


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ("S3", ["abelianization"]),
        ("D8", ["smaller abelian quotient", "abelianization", "nonabelian quotient"]),
        ("S3xZ3", ["smaller abelian quotient", "nonabelian quotient"]),
        ("S4", ["abelianization", "nonabelian quotient"]),
        ("A5", []),
    ],
)
def test_quotients_are_compared_with_the_abelianization(spec, kinds):
    (group,) = group_mechanisms.by_group(of_group(spec, "parity-associative", number=1)).values()
    assert [group.kind(link) for link in group.links] == [*kinds, "state"]
    assert group.abelianization == (
        group.links[kinds.index("abelianization")] if "abelianization" in kinds else None
    )
    assert group.largest() == (kinds[:1] or ["no quotient"])
    assert group.counts_abelianization() == [kinds[:1] == ["abelianization"]]
    assert group.composed_links() == {", ".join(group.links[1:]): 1}


def test_a_composed_abelianization_is_not_counted():
    (group,) = group_mechanisms.by_group(of_group("S3", "composed-quotient")).values()
    assert group.largest() == ["abelianization"] * 4
    assert group.counts_abelianization() == [False] * 4


def test_pairs_of_groups_with_the_same_chain():
    alike = of_group("D4", "parity-associative", number=8) + of_group("D6", "associative")
    groups = group_mechanisms.by_group([*alike, *of_group("Dic3.json", "unlearned")])
    assert group_mechanisms.planned_tests(groups) == {"layers by derived length": (1.0, 1.0)}
    other = of_group("Q8.json", "parallel", number=8)
    tests = group_mechanisms.planned_tests(group_mechanisms.by_group(alike + other))
    assert tests["D4 against Q8"] == pytest.approx((2 / 12870, 4 / 12870))


def test_exact_test_of_several_categories():
    assert exact_two_sided([3, 0, 0], [0, 1, 2]) == pytest.approx(2 / 20)
    assert exact_two_sided([2, 1, 0], [1, 0, 2]) == pytest.approx(8 / 20)
    assert exact_two_sided([4, 0], [0, 4]) == pytest.approx(2 / 70)
    assert exact_two_sided([], []) == 1
