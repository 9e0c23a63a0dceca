"""The numbers of docs/findings are those of results/."""

import pytest

from reproduction.findings import (
    Count,
    clopper_pearson,
    counts,
    fisher_two_sided,
    holm,
    mechanism_switch,
    models,
    planned_tests,
    small_trajectories,
)


def test_exact_intervals_of_few_models():
    assert clopper_pearson(4, 4) == pytest.approx((0.025**0.25, 1.0))
    assert clopper_pearson(0, 6) == pytest.approx((0.0, 1 - 0.025 ** (1 / 6)))
    assert clopper_pearson(5, 8) == pytest.approx((0.2449, 0.9148), abs=1e-4)


def test_corrections_keep_the_order_of_tests():
    raw = {("a", "b"): 0.01, ("c", "d"): 0.04, ("e", "f"): 0.03}
    assert list(holm(raw).values()) == pytest.approx([0.03, 0.06, 0.06])


def test_two_sided_counts_both_ends():
    assert fisher_two_sided(Count(4, 4), Count(0, 4)) == pytest.approx(2 / 70)
    assert fisher_two_sided(Count(0, 4), Count(0, 6)) == 1


def test_the_page_on_topic_models_tells_these_numbers(request, selection):
    root = request.config.rootpath
    rows = models(selection)
    page = (root / "docs/findings/topic-models.md").read_text()
    told = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 18
    both = {column: counts(rows, column) for column in ("verdict", "cutoff_verdict")}
    named = {"topic-1": "topic model 1", "topic-2": "topic model 2", "topic": "both"}
    for name in both["verdict"]:
        shares = [f"{made[name].count} of {made[name].n}" for made in both.values()]
        low = [f"({made[name].interval()[0]:.0%} to" for made in both.values()]
        line = next(
            line
            for line in told
            if line.startswith(f"| {named.get(name, name)} |") and shares[0] in line
        )
        assert all(part in line for part in (*shares, *low))
    for (one, other), (p, corrected) in planned_tests(both["verdict"]).items():
        words = {"topic": "both topic models", "control": "control (two-sided)"}
        against = "no stage" if other == "scratch" else other
        start = f"| {words.get(one, named.get(one))} | {against} |"
        line = next(line for line in told if line.startswith(start))
        assert f"{p:.2g}"[:6] in line
        assert f"{corrected:.2g}" in line


def test_the_page_on_the_switch_tells_these_numbers(request, selection):
    page = (request.config.rootpath / "docs/findings/mechanism-switch.md").read_text()
    accuracy, errors, _ = mechanism_switch(selection).panels
    state, parity = (dict(zip(line.x, line.y, strict=True)) for line in accuracy.marks)
    shares = dict(zip(errors.marks[0].x, errors.marks[0].y, strict=True))
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if ",000 | " in line]
    assert len(rows) == 8
    for step, *printed in rows:
        at = int(step.replace(",", "")) / 1000
        share = f"{shares[at]:.2f}" if at in shares else "too few errors"
        assert printed == [f"{state[at]:.1%}", f"{parity[at]:.1%}", share]
    small = small_trajectories(selection)
    assert f"{len(small['associative'])} AA models" in page
    assert f"{len(small['parity-associative'])} PAA models" in page
    assert max(small["associative"]) < 0.415
    assert sorted(small["parity-associative"])[1] > 0.9
