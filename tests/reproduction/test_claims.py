"""The claims: complete, well formed, decided as their rules say, with the numbers they had."""

import shutil

import pytest

from reproduction.claim import (
    AGREES,
    DIFFERS,
    SMALL,
    STATUSES,
    UNTESTED,
    Check,
    Claim,
    answer,
    load_claims,
    run_test,
)
from reproduction.lens_model import AA, PAA
from reproduction.model_selection import Selection
from reproduction.tables import Tables
from statetrace.errors import StatetraceError
from tests.reproduction.conftest import add_study


@pytest.fixture(scope="module")
def answers(selection):
    return {claim.id: answer(claim, selection) for claim in load_claims()}


ONE_BY_ONE = {"AA": 1}
"""AA models of the paper's size in folders of their own; of PAA there are three."""


def numbers(answers, claim, label, small=False):
    outcome = next(
        o
        for o in answers[claim].outcomes
        if o.test.label.startswith(label) and o.test.small == small
    )
    return [number for _, number in outcome.numbers]


def values(answers, claim, label, small=False):
    """Of models analyzed one by one; those of studies come after them."""
    outcome = numbers(answers, claim, label, small)
    return [round(number.value, 4) for number in outcome][: ONE_BY_ONE.get(label[:2], 3)]


def test_there_are_45_claims_in_eight_bands(answers):
    assert list(answers) == list(range(1, 46))
    assert len({a.claim.band for a in answers.values()}) == 8
    assert {a.status for a in answers.values()} <= set(STATUSES)


def test_untested_claims_say_why(answers):
    for reply in answers.values():
        if reply.status == UNTESTED:
            assert reply.claim.why, reply.claim.id


def test_bounds_of_our_own_do_not_refute_at_the_papers_size(answers):
    for reply in answers.values():
        for outcome in reply.outcomes:
            if outcome.decision == "fail" and not outcome.test.small:
                assert outcome.test.bound == "paper"
                assert outcome.models >= 3


def test_patching_numbers(answers):
    assert values(answers, 2, "AA: growth") == [0.9259]
    assert len(numbers(answers, 2, "AA: growth")) == 6
    assert len(numbers(answers, 4, "PAA: restored where only")) == 5
    assert values(answers, 3, "AA: mean distance") == [0.0048]
    assert values(answers, 4, "PAA: restored where only") == [0.5272, 0.565, 0.5904]
    assert values(answers, 5, "PAA, same parity: growth") == [0.5933, 0.7465, 0.694]
    assert values(answers, 6, "PAA, opposite") == [0.8333, 0.3333, 0.75]
    assert [n.detail for n in numbers(answers, 8, "AA: layers")] == ["99 95 82 28" + " 0" * 9]
    assert values(answers, 10, "AA: mean") == [0.0321]


def test_probe_numbers(answers):
    assert values(answers, 12, "AA: best parity probe") == [0.529]
    assert values(answers, 13, "PAA: share") == [0.732, 0.5317, 0.5845]
    assert values(answers, 15, "PAA: probability") == [0.332, 0.3299, 0.3481]
    assert numbers(answers, 16, "patching alone", small=True)[0].detail == "127 of 141"


def test_geometry_and_attention_numbers(answers):
    assert values(answers, 17, "PAA: largest distance") == [2.57, 0.36, 7.66]
    assert values(answers, 18, "PAA: different") == [3]
    assert values(answers, 19, "AA, parity linear: variance") == [0.4637]
    assert values(answers, 20, "PAA: score") == [62.36, 66.8, 94.17]
    assert values(answers, 21, "AA: points") == [-7.15]
    assert values(answers, 22, "PAA: attention on odd") == [0.861, 0.9736, 0.8512]
    assert values(answers, 23, "AA: rank correlation of depth and mean") == [0.958]


def test_numbers_of_many_models(answers):
    assert numbers(answers, 24, "PAA by patching", small=True)[0].detail == "112 of 112"
    assert numbers(answers, 25, "AA by patching", small=True)[0].detail == "44 of 50"
    assert values(answers, 26, "mean state cutoff", small=True) == [0.4965]
    assert values(answers, 28, "final loss", small=True) == [-0.0214]
    assert numbers(answers, 30, "PAA by patching", small=True)[0].detail == "110 of 111"
    assert numbers(answers, 31, "AA by patching", small=True)[0].detail == "48 of 54"
    assert numbers(answers, 33, "cutoffs midway", small=True)[0].detail == "48 of 60 equal"
    assert values(answers, 33, "cutoffs midway", small=True) == [0.3919]
    assert numbers(answers, 38, "AA and PAA", small=True)[0].detail == "11 AA, 13 PAA"
    assert values(answers, 42, "share of AA", small=True) == [0.2878]


def test_topic_tables_are_kept_apart(answers):
    labels = [o.test.label for o in answers[40].outcomes]
    assert all("topic-1" in label or "topic-2" in label for label in labels)
    for table, large, small in (
        ("topic-1", "5 of 5", "5 of 20"),
        ("topic-2", "4 of 4", "18 of 20"),
    ):
        label = f"after {table}: AA by all lenses"
        assert numbers(answers, 40, label)[0].detail == large
        assert numbers(answers, 40, label, small=True)[0].detail == small


def test_a_claim_needs_tests_or_a_status():
    with pytest.raises(StatetraceError, match="claim 7"):
        Claim(7, "band", "says", "where", "section")
    with pytest.raises(StatetraceError, match="bound"):
        Check("label", "choice.kinds", {}, {"at_least": 1}, "paper", "theirs", "before")


def test_adding_a_claim_is_a_block_of_toml(tmp_path, selection):
    (tmp_path / "new.toml").write_text(
        'band = "New"\n[[claim]]\nid = 46\nsays = "s"\nwhere = "w"\nsection = "figure-2"\n'
        '[[claim.test]]\nlabel = "l"\nmeasure = "choice.kinds"\nmodels = { study = "tiny-split" }\n'
        'rule = { at_least = 2 }\npaper = "both"\nbound = "paper"\nfixed = "before"\nsmall = true\n'
    )
    [claim] = load_claims(tmp_path)
    reply = answer(claim, selection)
    assert (reply.status, reply.small) == (SMALL, "agree")
    (tmp_path / "again.toml").write_text((tmp_path / "new.toml").read_text())
    with pytest.raises(StatetraceError, match="same id"):
        load_claims(tmp_path)


def test_how_tests_combine(selection):
    large = {
        "label": "l",
        "measure": "patching.settled_depth",
        "args": {"split": "opposite parity"},
        "models": {"mechanism": "PAA", "size": "paper"},
        "paper": "p",
        "fixed": "after",
    }
    passing, failing = {"at_most": 1.0}, {"at_most": 0.1}

    def status(*tests, **about):
        return answer(Claim(1, "b", "s", "w", "x", tests, **about), selection).status

    assert status(Check(rule=passing, bound="ours", **large)) == AGREES
    assert status(Check(rule=failing, bound="paper", **large)) == DIFFERS
    assert status(Check(rule=failing, bound="ours", **large), why="y") == UNTESTED
    both = (Check(rule=passing, bound="ours", **large), Check(rule=failing, bound="paper", **large))
    assert status(*both) == DIFFERS
    absent = large | {"models": {"folder": ["nothing"]}}
    assert status(both[0], Check(rule=passing, bound="ours", **absent)) == AGREES
    needed = Check(rule=passing, bound="ours", needed=True, **absent)
    assert status(both[0], needed) == UNTESTED


def topics(project, verdicts, name="topics-pythia-160m"):
    for folder in project.glob("results/topics-*"):
        shutil.rmtree(folder)
    cells = {
        ("pythia-160m", regime, seed): {"verdict": verdict, "step": 7000, "early_step": 7000}
        for regime, seeds in verdicts.items()
        for seed, verdict in enumerate(seeds)
    }
    add_study(project, name, cells)
    made = Selection(Tables(project))
    return {c.id: answer(c, made) for c in load_claims() if c.id in (36, 40, 42)}


def test_topic_models_of_the_papers_size_decide_as_soon_as_they_arrive(project):
    found = topics(project, {"topic-1": [AA] * 4, "topic-2": [AA] * 4, "control": [PAA] * 4})
    assert found[40].status == found[42].status == AGREES
    assert found[36].status == AGREES
    scratch = next(o for o in found[36].outcomes if not o.test.small)
    assert scratch.models == 6  # runs after other stages are not from scratch


def test_topic_models_that_stay_parity_associative_differ(project):
    found = topics(project, {"topic-1": [PAA] * 3 + [AA], "topic-2": [AA] * 4, "control": [AA] * 4})
    assert found[40].status == found[42].status == DIFFERS


def test_few_topic_models_leave_the_claim_to_small_ones(project):
    found = topics(project, {"topic-1": [AA], "topic-2": [AA] * 3, "control": [PAA] * 2})
    assert (found[40].status, found[40].small) == (SMALL, "differ")
    assert found[42].status == SMALL
    decided = [
        o.decision for o in found[40].outcomes if not (o.test.small or o.test.aside) and o.numbers
    ]
    assert decided == ["open", "pass"]


def test_numbers_without_models_are_absent(selection):
    test = Check("l", "choice.kinds", {"study": "nothing"}, {"at_least": 1}, "p", "paper", "before")
    assert run_test(test, selection).decision == "absent"
