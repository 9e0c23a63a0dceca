"""What rows beside the figures' main points measure, on results made up for it."""

import json
import re
from importlib.resources import files

import pytest

from reproduction.claims import CLAIMS
from reproduction.losses import rows as losses_of
from reproduction.measures import algorithms, theory
from reproduction.measures import heads as of_heads
from reproduction.measures import models as of_models
from reproduction.measures import probing as of_probing
from reproduction.measures import seeds as of_seeds
from reproduction.measures import text as of_text
from reproduction.model_selection import A, P
from reproduction.results import Missing, Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED, judge
from reproduction.settings_tables import analysis_table, training_table
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.groups import group
from tests.reproduction.made import CELL, write_csv, write_json, write_patching

NAMED = {claim.name: claim for claim in CLAIMS}
RULES = {name: claim.rule for name, claim in NAMED.items()}

PRINTED = {
    "paper-1": r"""
3.06 \cdot 10^{-2}, & 1.11 \cdot 10^{-1}, & 5.79 \cdot 10^{-4}, & 6.45 \cdot 10^{-3}, & 6.58 \cdot 10^{-3}, & 8.45 \cdot 10^{-1} \\
3.36 \cdot 10^{-1}, & 1.69 \cdot 10^{-4}, & 6.63 \cdot 10^{-1}, & 8.05 \cdot 10^{-7}, & 1.68 \cdot 10^{-7}, & 7.81 \cdot 10^{-4} \\
7.92 \cdot 10^{-5}, & 1.41 \cdot 10^{-2}, & 9.44 \cdot 10^{-1}, & 4.53 \cdot 10^{-4}, & 4.13 \cdot 10^{-2}, & 3.27 \cdot 10^{-11} \\
2.85 \cdot 10^{-3}, & 1.29 \cdot 10^{-9}, & 7.06 \cdot 10^{-1}, & 6.37 \cdot 10^{-7}, & 2.58 \cdot 10^{-3}, & 2.89 \cdot 10^{-1}
""",  # noqa: E501
    "paper-2": r"""
9.31 \cdot 10^{-1} & 2.32 \cdot 10^{-3} & 1.38 \cdot 10^{-8} & 5.86 \cdot 10^{-10} & 4.62 \cdot 10^{-5} & 6.63 \cdot 10^{-2} \\
2.10 \cdot 10^{-4} & 3.12 \cdot 10^{-4} & 9.32 \cdot 10^{-7} & 9.07 \cdot 10^{-6} & 2.53 \cdot 10^{-1} & 7.47 \cdot 10^{-1} \\
4.95 \cdot 10^{-1} & 1.18 \cdot 10^{-3} & 4.55 \cdot 10^{-1} & 2.17 \cdot 10^{-2} & 1.86 \cdot 10^{-8} & 2.71 \cdot 10^{-2} \\
6.55 \cdot 10^{-1} & 4.92 \cdot 10^{-4} & 3.44 \cdot 10^{-1} & 2.28 \cdot 10^{-7} & 1.94 \cdot 10^{-4} & 2.14 \cdot 10^{-8}
""",  # noqa: E501
}
"""The tables as the paper's source has them (appendix H)."""


@pytest.mark.parametrize("name", PRINTED)
def test_topic_tables_are_the_papers(name):
    kept = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
    assert kept["tokens"] == ["123", "132", "213", "231", "312", "321"]
    rows = [
        [float(f"{a}e{b}") for a, b in re.findall(r"([\d.]+) \\cdot 10\^\{(-\d+)\}", line)]
        for line in PRINTED[name].strip().splitlines()
    ]
    assert kept[name] == rows


@pytest.mark.parametrize(
    ("name", "measure", "judged"),
    [
        ("parity-sum", theory.summed_parity, AGREES),
        ("paa-layers", theory.complement_layers(32), AGREES),
        ("paa-half", theory.plateau_in_theory(32), AGREES),
        ("paa-whole", theory.plateau_in_theory(32, opposite_too=True), AGREES),
        ("paa-whole", theory.plateau_in_theory(32), DIFFERS),
        ("not-solvable", theory.smallest_unsolvable, AGREES),
        ("s3-is-d3", theory.s3_is_d3, AGREES),
        ("relation", theory.printed_relation, DIFFERS),
        ("two-generators", theory.two_generators, AGREES),
        ("clusters-by-generators", theory.printed_clusters, AGREES),
        ("text-example", theory.told_example, AGREES),
        ("swaps", algorithms.swaps, AGREES),
        ("swap-example", algorithms.swap_example, AGREES),
        ("three-odd", algorithms.odd_ones, AGREES),
        ("parallel-layers", algorithms.more_layers("parallel", "patching"), AGREES),
        ("parallel-layers", algorithms.more_layers("associative", "patching"), DIFFERS),
        ("parallel-state", algorithms.more_layers("parallel", "state"), AGREES),
        ("parallel-parity", algorithms.more_layers("parallel", "parity linear"), AGREES),
        ("parallel-parity", algorithms.more_layers("sequential", "parity linear"), DIFFERS),
        ("paa-parity-layers", algorithms.more_layers("parity-associative", "state"), DIFFERS),
    ],
)
def test_what_is_said_of_groups_and_algorithms(tmp_path, name, measure, judged):
    """Computed: needs nothing of results/."""
    assert judge(RULES[name], measure(Results(tmp_path))) == judged


@pytest.mark.parametrize("length", [8, 20])
def test_formulas_of_probes(tmp_path, length):
    """What the associative algorithm knows is cut off at the length; the sequential one is one
    ahead of the paper's formula."""
    found = Results(tmp_path)
    doubled = theory.probed_share("associative", length, lambda at: min(2**at, length) / length)
    assert doubled(found).value == 0
    chained = theory.probed_share("sequential", length, lambda at: at / length)
    assert chained(found).value == pytest.approx(1 / length)


def test_swaps_needed():
    """As many as objects less cycles, counted in another way; a cycle of 3 takes two."""
    for of in (group("S3"), group("S4"), group("S5")):
        for label, count in zip(of.labels, algorithms.swaps_needed(of), strict=True):
            left, cycles = set(range(len(label))), 0
            while left:
                at, cycles = min(left), cycles + 1
                while at in left:
                    left.remove(at)
                    at = int(label[at]) - 1
            assert count == len(label) - cycles
    even = group("A4")  # without swaps nothing but the identity is reached
    assert sorted(set(algorithms.swaps_needed(even))) == [-1, 0]


@pytest.mark.parametrize("algorithm", ["sequential", "associative", "parity-associative"])
def test_how_many_layers_more(tmp_path, algorithm):
    """From 8 to 32 actions: one by one, by doubling, and none for parity that comes first."""
    more = {"sequential": 24, "associative": 2, "parity-associative": 2}[algorithm]
    found = Results(tmp_path)
    assert algorithms.more_layers(algorithm, "state")(found).value == more
    parity = algorithms.more_layers(algorithm, "parity linear")(found)
    assert parity.value == (0 if algorithm == "parity-associative" else more)


def test_the_relation_that_holds(tmp_path):
    assert theory.printed_relation(Results(tmp_path)).words.endswith("ab = b⁻¹a holds in 2 of 2")


def write_heads(root, scores):
    """Scores by (layer, head), each with an interval of one point to either side."""
    rows = [
        {"measure": "head score", "name": "parity", "layer": layer, "head": head, "mean": score,
         "std": 1.0, "low": score - 1, "high": score + 1, "n": 100}
        for (layer, head), score in scores.items()
    ]  # fmt: skip
    write_csv(root / "results/zoo" / P / "attention.csv", rows)


def test_where_parity_heads_lie(tmp_path):
    """The second of those that are surely above one half; a head at the bound is not."""
    write_heads(tmp_path, {(1, 0): 50.5, (2, 0): 90, (3, 1): 70, (6, 0): 99, (6, 1): 3})
    found = of_heads.heads_depth(P)(Results(tmp_path))
    assert found.value == pytest.approx(3 / 6)
    assert judge(RULES["heads-early"], found) == DIFFERS
    write_heads(tmp_path, {(1, 0): 60, (1, 1): 61, (6, 0): 2})
    assert judge(RULES["heads-early"], of_heads.heads_depth(P)(Results(tmp_path))) == AGREES
    write_heads(tmp_path, {(1, 0): 60, (6, 0): 2})
    assert judge(RULES["heads-early"], of_heads.heads_depth(P)(Results(tmp_path))) == NOT_REACHED


def write_known(root, known):
    """Layer l knows the state of sequences up to known[l] actions."""
    rows = [
        {"target": "state", "position": "last", "length": length, "layer": layer,
         "metric": "probability", "mean": 0.9 if length <= longest else 0.2, "std": 0.0, "n": 50,
         "chance": 0.17}
        for layer, longest in enumerate(known)
        for length in range(1, max(known) + 1)
    ]  # fmt: skip
    write_csv(root / "results/zoo" / A / "probing.csv", rows)


@pytest.mark.parametrize(
    ("known", "value", "judged"),
    [
        ((0, 4, 8, 16, 32, 64), 1, AGREES),
        ((0, 4, 19, 34, 49, 64), 0, DIFFERS),
        ((0, 0, 0, 0, 4, 64), None, NOT_REACHED),
        ((0, 2, 3, 5), None, NOT_REACHED),
    ],
)
def test_lengths_that_double_and_lengths_that_grow_by_steps(tmp_path, known, value, judged):
    write_known(tmp_path, known)
    found = of_probing.length_bend(A)(Results(tmp_path))
    if value is not None:
        assert found.value == pytest.approx(value)
    assert judge(RULES["aa-lengths"], found) == judged


def test_lengths_learned_one_after_the_other(tmp_path):
    def write(steps):
        rows = [
            {"measure": "reached", "what": "state", "length": n, "threshold": 0.9, "step": step,
             "value": None}
            for n, step in enumerate(steps, start=1)
        ]  # fmt: skip
        write_csv(tmp_path / "results/zoo" / A / "dynamics.csv", rows)
        return of_models.by_length(A)(Results(tmp_path))

    steps = [100 * n for n in range(30)]
    found = write([0, *steps, None])
    assert (found.value, found.n) == (pytest.approx(1, abs=0.001), 31)
    assert judge(RULES["aa-progress"], found) == AGREES
    assert judge(RULES["aa-progress"], write(steps[::-1])) == DIFFERS
    with pytest.raises(Missing):
        write([100, 100, 100, 100])


def test_models_of_sentences_are_taken_together(tmp_path):
    write_patching(tmp_path, "text-scratch-0", (1, 2, 4, 8, 16), length=16)
    write_patching(tmp_path, "text-scratch-1", (1, 6, 11, 16), length=16)
    measure = of_text.mean_of_folders("text-scratch", "patching", of_text.bend_of)
    assert measure(Results(tmp_path)).value == pytest.approx((1 + 0) / 2)
    with pytest.raises(Missing):
        of_text.mean_of_folders("text-scratch", "probing", of_text.gain_of)(Results(tmp_path))


@pytest.mark.parametrize(
    ("length", "fronts", "judged"),
    [
        (16, (1, 2, 4, 8, 16), AGREES),
        (16, (1, 6, 11, 16, 16), DIFFERS),
        (5, (1, 2, 4, 5, 5), NOT_REACHED),  # doubling as far as it goes
        (6, (1, 3, 5, 6, 6), NOT_REACHED),
    ],
)
def test_short_sentences_cannot_show_doubling(tmp_path, length, fronts, judged):
    write_patching(tmp_path, "text-scratch-0", fronts, length=length)
    found = NAMED["text-patching"].measure(Results(tmp_path))
    assert judge(RULES["text-patching"], found) == judged
    assert found.words.startswith("too short to tell") == (judged == NOT_REACHED)
    assert f"layer by layer: {' '.join(map(str, fronts))}" in found.words


def test_mechanisms_of_sentences_by_cutoffs(tmp_path):
    """Alike in state and parity, or parity further; few models do not decide."""

    def write(ends):
        for seed, (state, parity) in enumerate(ends):
            cutoff = {"state": {"first_below": state}, "parity": {"first_below": parity}}
            file = tmp_path / f"results/text-scratch-{seed}/generalization.json"
            write_json(file, {"summary": {"cutoff": cutoff}})
        return of_text.equal_cutoffs("text-scratch")(Results(tmp_path))

    with pytest.raises(Missing):
        write([])
    few = write([(6, 9), (5, 9)])
    assert (few.value, few.n) == (0, 2)
    assert few.words == "0 of 2; cutoffs: state 6, parity 9; state 5, parity 9"
    assert judge(RULES["text-mechanism"], few) == NOT_REACHED
    assert judge(RULES["text-mechanism"], write([(5, 9)] * 8)) == DIFFERS
    assert judge(RULES["text-mechanism"], write([(9, 9)] * 8)) == AGREES


def test_cutoffs_beyond_what_was_taught_tell_nothing(tmp_path):
    def write(ends):
        rows = [
            CELL | {"cell": f"{regime}-{i}", "regime": regime, "cutoff": end, "longest": 40}
            for regime, here in ends.items()
            for i, end in enumerate(here)
        ]
        write_csv(tmp_path / "results/made/results.csv", rows)
        return of_seeds.cutoff_gap("made", ("one", "two"))(Results(tmp_path))

    found = write({"one": (18, 19, 20, None), "two": (12, 12, 13, 13)})
    assert found.value == pytest.approx((18 + 19 + 20 + 41) / 4 - 12.5)
    assert judge(RULES["auxiliary-further"], found) == AGREES
    level = write({"one": (21, 21, 21, 21), "two": (21, 21, 21, 21)})
    assert level.value is None
    assert "cutoffs cannot tell" in level.words


def test_seeds_that_draw_weights_say_nothing_of_data_order(tmp_path):
    def write(verdicts, **changed):
        rows = [CELL | {"cell": str(i), "verdict": v} | changed for i, v in enumerate(verdicts)]
        write_csv(tmp_path / "results/made/results.csv", rows)
        return Results(tmp_path)

    paper = {"layers": None, "width": None, "length": 100}
    found = write(["associative", "parity-associative", "parallel"], init_seed=None, **paper)
    counted = of_seeds.kinds_of_seeds("made", model="gpt2")(found)
    assert (counted.value, counted.n, counted.at_size) == (2, 3, True)
    assert of_seeds.kinds_of_seeds("made", same_start=True)(found).value is None
    assert judge(RULES["data-orders"], of_seeds.most_seeds("made")(found)) == NOT_REACHED
    found = write(["associative"] * 12, init_seed=7)
    counted = of_seeds.kinds_of_seeds("made", same_start=True)(found)
    assert (counted.value, counted.at_size) == (1, False)
    assert judge(RULES["data-order"], counted) == DIFFERS
    assert judge(RULES["data-orders"], of_seeds.most_seeds("made")(found)) == AGREES


def test_kinds_are_counted_among_models_of_one_width(tmp_path):
    """One kind at either width are not two that data order could have made."""
    rows = [
        CELL | {"cell": f"{width}-{i}", "verdict": verdict, "width": width, "init_seed": 0}
        for width, verdict in ((16, "associative"), (32, "parity-associative"))
        for i in range(3)
    ]
    write_csv(tmp_path / "results/made/results.csv", rows)
    counted = of_seeds.kinds_of_seeds("made", same_start=True, apart=("width",))(Results(tmp_path))
    assert (counted.value, counted.n) == (1, 6)
    assert counted.words == "width 16: 3 associative; width 32: 3 parity-associative"


@pytest.mark.parametrize(
    ("losses", "judged"),
    [
        ({"associative": 0.1, "parity-associative": 0.3}, AGREES),
        ({"associative": 0.3, "parity-associative": 0.1}, DIFFERS),
        ({"associative": 0.2, "parity-associative": 0.2}, NOT_REACHED),
    ],
)
def test_losses_at_which_models_end(tmp_path, losses, judged):
    """Seven of each kind, a little apart; a cell without a log, or of a third kind, does not
    count."""
    kinds = [*losses] * 7 + ["parallel", "associative"]
    cells = [CELL | {"cell": f"{i}", "verdict": kind} for i, kind in enumerate(kinds)]
    write_csv(tmp_path / "results/made/results.csv", cells)
    ends = [
        {"cell": f"{i}", "step": 100, "loss": losses.get(kind, 9) + 0.01 * (i // 2 % 3),
         "least_step": 90, "least": 0}
        for i, kind in enumerate(kinds[:-1])
    ]  # fmt: skip
    write_csv(tmp_path / "results/made/losses.csv", ends)
    found = of_seeds.loss_gap("made")(Results(tmp_path))
    gap = losses["associative"] - losses["parity-associative"]
    assert (found.value, found.n) == (pytest.approx(gap), 14)
    assert judge(RULES["aa-loss"], found) == judged


def test_losses_are_those_of_the_last_stage(tmp_path):
    """The last evaluation, and the least; another stage's is of another task."""
    stages = [{"objective": "parity", "steps": 10}, {"objective": "state", "steps": 20}]
    recipe = Recipe().override({"length": 4, "steps": 20}).to_dict() | {"stage": stages}
    named = [{"name": name, "recipe": recipe} for name in ("one", "waiting")]
    write_json(tmp_path / "study.json", {"cells": named})
    lines = [
        {"kind": "evaluation", "step": 10, "loss": 0.001, "stage": "1-parity"},
        {"kind": "evaluation", "step": 5, "loss": 1 / 3, "stage": "2-state"},
        {"kind": "evaluation", "step": 10, "loss": 0.1, "stage": "2-state"},
        {"kind": "evaluation", "step": 20, "loss": 0.2, "stage": "2-state"},
        {"kind": "training", "step": 20, "loss": 7.0, "stage": "2-state"},
    ]
    log = tmp_path / "cells/one/metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(losses_of(tmp_path)) == [
        {"cell": "one", "step": 20, "loss": 0.2, "least_step": 10, "least": 0.1}
    ]
    with pytest.raises(StatetraceError, match=r"has no study\.json"):
        list(losses_of(tmp_path / "cells"))


def test_settings_are_compared_with_the_papers(tmp_path, request):
    """How many sequences runs drew, and what they began with, is for the runs to say."""
    (tmp_path / "recipes").symlink_to(request.config.rootpath / "recipes")

    def said():
        return "\n".join(training_table(Results(tmp_path), str))

    assert "as runs of such models had | 1,000,000 | – | not run yet | – |" in said()
    assert "| 10 → 25 → 50 → 100 | 10 → 25 → 50 → 100 | the same | – |" in said()
    for study, drawn in (("scratch", 450_000), ("small", 900_000)):
        task = {"analysis_fraction": 0.1, "start_marker": study == "scratch"}
        recipe = {"task": task, "model": {"pretrained": None}}
        run = {"training_sequences": drawn, "recipe": recipe}
        write_json(tmp_path / "results" / study / "runs/0.json", run)
    assert "| 1,000,000 | 500,000 | other | 1,000,000 |" in said()
    assert "| of the Pile, except where noted | random | other | random |" in said()
    assert "| not said | yes | other | no |" in said()
    assert "steps of the longest run | 140,625 | – | not run yet | – |" in said()
    recipe |= {"stage": [{"objective": "state", "auxiliary": "parity"}]}
    recipe |= {"model": {"pretrained": None, "layers": 6}}
    run = {"training_sequences": 900_000, "recipe": recipe}
    write_json(tmp_path / "results/small-regimes/runs/0.json", run)
    assert "classifier reads (App. H) | e.g. 3 | – | not run yet | 2 of 6 |" in said()


def test_what_models_were_looked_at_with_is_for_the_results_to_say(tmp_path):
    def said():
        return "\n".join(analysis_table(Results(tmp_path)))

    assert said().count("not looked at yet") == 8
    folder = tmp_path / "results/zoo/s3-associative"
    grids = [{"where": "prefix", "window": 1}, {"where": "window", "window": 3}]
    write_json(folder / "patching.json", {"spec": {"grids": grids}, "summary": {}})
    write_json(folder / "attention.json", {"spec": {"first": 5, "last": 24}, "summary": {}})
    write_json(folder / "probing.json", {"spec": {}, "summary": {"lengths": [6, 8, 24]}})
    assert "| 1 | **3**, zoo/s3-associative | not looked at yet |" in said()
    assert "| 5 to 100 | **6 to 24**, zoo/s3-associative | not looked at yet |" in said()
    assert "| 5 to 80 | **5 to 24**, zoo/s3-associative | not looked at yet |" in said()
    assert "| 5 to 50 | not looked at yet | not looked at yet |" in said()
