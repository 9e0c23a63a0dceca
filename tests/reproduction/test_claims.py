"""The claims: complete, well formed, decided as their rules say. Their numbers are those of the
committed page and claims.csv (test_page.py)."""

import pytest

from reproduction.claim import (
    AGREES,
    DIFFERS,
    SMALL,
    UNTESTED,
    Check,
    Claim,
    answer,
    load_claims,
    run_test,
)
from statetrace.errors import StatetraceError


@pytest.fixture(scope="module")
def answers(selection):
    return {claim.id: answer(claim, selection) for claim in load_claims()}


def test_there_are_45_claims_in_eight_bands(answers):
    assert list(answers) == list(range(1, 46))
    assert len({a.claim.band for a in answers.values()}) == 8
    assert all(a.claim.why for a in answers.values() if a.status == UNTESTED)


def test_bounds_of_our_own_do_not_refute_at_the_papers_size(answers):
    for reply in answers.values():
        for outcome in reply.outcomes:
            if outcome.decision == "fail" and not outcome.test.small:
                assert outcome.test.bound == "paper"
                assert len(outcome.subjects) >= 3


def test_runs_after_other_stages_are_not_from_scratch(answers):
    scratch = next(o for o in answers[36].outcomes if not o.test.small)
    assert len(scratch.subjects) >= 6
    assert all(row["regime"] == "scratch" for row in scratch.subjects)


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


def test_numbers_without_models_are_absent(selection):
    test = Check("l", "choice.kinds", {"study": "nothing"}, {"at_least": 1}, "p", "paper", "before")
    assert run_test(test, selection).decision == "absent"
