"""The numbers of docs/findings are those of results/."""

import json
from collections import Counter
from statistics import mean, median

import numpy as np
import pytest

from reproduction import anchors, commitment, documents, foresight, group_mechanisms, trajectories
from reproduction.findings import (
    AROUND,
    SWITCHED,
    Count,
    clopper_pearson,
    counts,
    fisher_two_sided,
    holm,
    inside_the_switch,
    long_trajectories,
    mechanism_switch,
    models,
    named_again,
    planned_tests,
    small_trajectories,
)
from reproduction.judged import judged
from reproduction.lens_model import AA, PAA
from statetrace.runs import Run


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
    page = (request.config.rootpath / "docs/findings/topic-models.md").read_text()
    rows = models(selection)
    readings = [counts(rows, column) for column in ("verdict", "cutoff_verdict")]
    names = {"topic": "both", "topic-1": "topic model 1", "topic-2": "topic model 2"}
    table = page.split("\n| AA in ")[1]
    for name in readings[0]:
        line = table.split(f"\n| {names.get(name, name)} | ")[1].splitlines()[0]
        for cell, made in zip(line.strip(" |").split(" | "), readings, strict=True):
            low, high = made[name].interval()
            assert cell == f"{made[name].count} of {made[name].n} ({low:.0%} to {high:.0%})"
    names |= {"topic": "both topic models", "control": "control (two-sided)"}
    for (one, other), (p, corrected) in planned_tests(readings[0]).items():
        against = "no stage" if other == "scratch" else other
        cell = page.split(f"\n| {names[one]} | {against} | ")[1].split(" | ")[0]
        assert cell.replace("*", "") == f"{p:#.2g}, {corrected:#.2g}".replace("1.0", "1")


def test_the_page_on_the_switch_tells_these_numbers(request, selection):
    page = (request.config.rootpath / "docs/findings/mechanism-switch.md").read_text()
    accuracy, errors, *_ = mechanism_switch(selection).panels
    state, parity = (dict(zip(line.x, line.y, strict=True)) for line in accuracy.marks)
    shares = dict(zip(errors.marks[0].x, errors.marks[0].y, strict=True))
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if ",000 | " in line]
    outside, inside = ([row for row in rows if len(row) == n] for n in (4, 6))
    assert (len(outside), len(inside)) == (8, 5)
    for step, *printed in outside:
        at = int(step.replace(",", "")) / 1000
        share = f"{shares[at]:.2f}" if at in shares else "too few errors"
        assert printed == [f"{state[at]:.1%}", f"{parity[at]:.1%}", share]
    same, opposite, _ = inside_the_switch(selection).panels
    by_step = {row[0]: row for row in inside}
    for column, panel in ((2, same), (3, opposite)):
        for line in panel.marks:
            assert by_step[line.name.split()[1]][column] == " ".join(map(str, line.y))
    small = small_trajectories(selection)
    assert f"{len(small['associative'])} AA models" in page
    assert f"{len(small['parity-associative'])} PAA models" in page
    assert max(small["associative"]) < 0.415
    assert sorted(small["parity-associative"])[1] > 0.9


def test_models_named_again_are_those_of_the_pages(request, selection):
    docs = request.config.rootpath / "docs/findings"
    verdicts = named_again(selection)
    table = (docs / "topic-models.md").read_text().split("| present weights |")[1]
    names = {AA: "AA"}
    for folder, verdict in verdicts.items():
        if folder.startswith("topics-pythia"):
            stage, _, seed = folder.split("/")[2].removeprefix("pythia-160m_").partition("_seed-")
            row = table.split(f"{stage.replace('topic-', 'topic model ')}, seed {seed} | ")[1]
            (_, best), *_ = ranked = sorted((-p, name) for name, p in verdict.probabilities.items())
            assert f"{names.get(best, best)} ({-ranked[0][0]:.2f})" in row.splitlines()[0]
            assert (verdict.mechanism == "undecided") == ("undecided" in row.splitlines()[0])
    by_step = [verdicts[name] for name in sorted(verdicts) if name.startswith(AROUND)]
    assert [verdict.mechanism for verdict in by_step] == [
        *("composed-quotient", "composed-quotient", "undecided", AA, AA)
    ]
    page = (docs / "mechanism-switch.md").read_text()
    assert all(f"{verdict.confidence:.0%}" in page for verdict in by_step)
    counted_parity = [name for name in verdicts if PAA in name or "control" in name]
    assert len(counted_parity) == 6
    likely = [verdicts[name].probabilities for name in counted_parity]
    assert {max(each, key=each.__getitem__) for each in likely} == {"composed-quotient"}


def test_longer_training_changes_no_small_model(request, selection):
    page = (request.config.rootpath / "docs/findings/mechanism-switch.md").read_text()
    by_both = Counter((r["early_verdict"], r["verdict"]) for r, _ in long_trajectories(selection))
    assert by_both == {(PAA, PAA): 12, (AA, AA): 10, (AA, PAA): 2}
    low, high = clopper_pearson(0, 12)
    assert f"0 of 12 changed (Clopper-Pearson interval {low:.0%} to {high:.0%})" in page
    means: dict[str, list[float]] = {AA: [], PAA: []}
    for row, evaluations in long_trajectories(selection):
        means[row["verdict"]].append(mean(e.errors for e in evaluations if e.step >= 6500))
    for mechanism, shares in means.items():
        assert f"{min(shares):.2f} to {max(shares):.2f}" in page, mechanism


def test_the_run_repeats_exactly(request):
    """Every value that both logs have."""
    first, again = (Run(request.config.rootpath / "results" / name) for name in (SWITCHED, AROUND))
    logs = [
        [json.loads(line) for line in (run.path / "metrics.jsonl").open()] for run in (first, again)
    ]
    losses = [{(r["kind"], r["step"]): r["loss"] for r in log} for log in logs]
    shared = losses[0].keys() & losses[1].keys()
    kinds = Counter(kind for kind, _ in shared)
    assert kinds == {"training": 2800, "evaluation": 29}
    assert all(losses[0][at] == losses[1][at] for at in shared)


def test_the_page_on_anchors_tells_these_numbers(request):
    root = request.config.rootpath
    models, solved = judged(root / anchors.RESULTS), anchors.pairs(root / anchors.RESULTS)
    counted = anchors.counts(models)
    page = " ".join((root / "docs/findings/anchors.md").read_text().split())
    names = {"gpt2": "GPT-2", "pythia": "Pythia"}
    for family, name in names.items():
        shares = [counted[AA, family, anchor] for anchor in anchors.ANCHORS]
        cells = [
            "{} of {} ({:.0%} to {:.0%})".format(share.count, share.n, *share.interval())
            for share in shares
        ]
        row = f"| {name}, associative | {' | '.join(cells)} |"
        assert row.replace("% to", " to") in page
    tests = anchors.planned_tests(counted)
    small = {pair: corrected for pair, (_, corrected) in tests.items() if corrected < 0.05}
    between = {pair for pair in small if pair[-1] != "own-first-token"}
    assert between == {(AA, "pythia", "marker", "none")}
    assert f"corrected {small[AA, 'gpt2', 'marker', 'own-first-token']:.0e}" == "corrected 4e-07"
    indistinct = {model["cell"] for model in anchors.of(models, "pythia", "none")}
    assert {solved[cell] for cell in indistinct} == {31}
    assert {n for cell, n in solved.items() if cell not in indistinct} == {36}


def test_the_page_on_groups_tells_these_numbers(request):
    root = request.config.rootpath
    groups = group_mechanisms.by_group(judged(root / group_mechanisms.RESULTS))
    claims = [*group_mechanisms.claims(groups).values()]
    columns = [claims[number] for number in (1, 2, 5, 6)]
    page = (root / "docs/findings/groups.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(claims[1])  # with the head and the sums
    for name, *_, own, before, largest, counted in rows[1:-1]:
        group = name.replace("(", "").replace(",", "").replace(")", "").replace("×", "x")
        sums = ["–" if group not in column else str(sum(column[group])) for column in columns]
        assert [own, before, largest, counted] == sums, name
    total = [group_mechanisms.over_models(column) for column in columns]
    assert [cell.strip("* |") for cell in rows[-1][-4:]] == [f"{t.count} of {t.n}" for t in total]


def test_the_page_on_trajectories_tells_these_numbers(request):
    root = request.config.rootpath
    models = judged(root / trajectories.RESULTS)
    page = (root / "docs/findings/trajectories.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    cells = {name: columns for name, *columns in rows if len(columns) == 2}
    for number, training in enumerate(trajectories.TRAININGS):
        paths = trajectories.trajectories(models, training)
        learned = [path for path in paths if path.learned]
        counting = trajectories.counting(paths)
        parallel = Count(len(trajectories.named(paths, "parallel")), len(learned))
        low, high = parallel.interval()
        share = f"{parallel.count} of {parallel.n} ({100 * low:.0f} to {high:.0%})"
        expected = {
            "learned": f"{len(learned)} of 48",
            "count parity at the end": f"{len(counting)} of {len(learned)}",
            "parallel at the end (95% interval)": share,
        }
        for link, some, which in (
            ("parity", counting, " (if counted at the end)"),
            ("state", learned, ""),
        ):
            changes = trajectories.changes(some, link)
            falls = sum(change < 0 for change in changes)
            expected[f"{link}'s growth falls{which}"] = f"{falls} of {len(changes)}"
            middle = f"{median(changes):.2f}".replace("-", "−")
            expected[f"{link}'s growth, median change per doubling"] = middle
        assert {name: cells[name][number] for name in expected} == expected


def test_the_page_on_documents_tells_these_numbers(request):
    root = request.config.rootpath
    models = judged(root / documents.RESULTS)
    page = (root / "docs/findings/documents.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    names = {
        **dict.fromkeys(documents.BEFORE, documents.TOKENS),
        "nothing, with a marker": documents.MARKER,
        "random, with a marker": documents.MARKER,
    }
    words = {"constant": "one token, repeated", "shuffled": "random, then shuffled",
             "topic-2": "topic model 2"}  # fmt: skip
    for name, anchor in names.items():
        mine = documents.trained(models, anchor, name.partition(",")[0])
        able = [model for model in mine if model.learned]
        named, share = Counter(model.mechanism for model in able), documents.count(able)
        low, high = share.interval()
        expected = [f"{len(able)} of {len(mine)}"]
        expected += [f"{share.count} of {share.n} ({100 * low:.0f} to {high:.0%})"]
        expected += [str(named[m]) for m in (PAA, "composed-quotient", "parallel", "other")]
        others = [f"{each.count} of {each.n}" for each in documents.otherwise(mine).values()]
        printed = [columns for row, *columns in rows if row == words.get(name, name)]
        assert printed == [expected, others], name


def test_the_page_on_commitment_tells_these_numbers(request):
    root = request.config.rootpath
    everyone = commitment.all_parents(judged(root / commitment.RESULTS))
    families = [parent for parent in everyone if parent.branches]
    some = [parent for parent in families if parent.counts]
    tests = commitment.planned_tests(judged(root / commitment.RESULTS))
    page = " ".join((root / "docs/findings/commitment.md").read_text().split())
    p, corrected = tests["committed by 1000"]
    assert f"(p = {p:.2g}, corrected {corrected:.2g})" in page

    def row(name, cell):
        line = f"| {name} | {' | '.join(str(cell(step)) for step in commitment.STEPS)} |"
        assert line in page

    def count(outcome, *used):
        def cell(step):
            same = commitment.as_parent(some, step, outcome, *used)
            return f"{same.count} of {same.n}"

        return cell

    def committed(step):
        return Count(
            sum(parent.agreement(step) >= commitment.COMMITTED for parent in some), len(some)
        )

    def interval(step):
        low, high = committed(step).interval()
        return f"{100 * low:.0f} to {high:.0%}"

    def same_parity(step):
        same = commitment.same_parity(families, step)
        return f"{same.count} of {same.n}"

    def of_accuracy(step):
        every = [[b["accuracy"] for b in parent.branches[step]] for parent in families]
        return f"{commitment.variance_between(every):.2f}"

    row("end as their parent, AA or not", count(commitment.associative))
    row("same mechanism as their parent", count(commitment.mechanism))
    decided = count(commitment.mechanism, lambda b: b.learned and b.decided)
    row("same, if the branch is decided", decided)
    row("all parents: keep parity or not as their parent", same_parity)
    row("all parents: share of the variance of accuracy between them", of_accuracy)
    row("95% interval", interval)
    row("parents of which at least 90% do", lambda step: f"{committed(step).count} of {len(some)}")
    shares = "share of the variance of AA between parents"
    row(shares, lambda step: f"{commitment.variance_between(p.ends(step) for p in some):.2f}")
    row("foresight, p and corrected p", lambda step: ", ".join(
        f"{p:.2g}" for p in tests[f"foresight at {step}"]))  # fmt: skip
    for step, right in ((250, 20), (500, 31)):
        pairs = commitment.ends(([*each.checkpoints.values()] for each in everyone), step)
        flags = [bool(commitment.keeps_parity(last)) for _, last in pairs]
        hits, _ = commitment.left_out([early for early, _ in pairs], flags)
        assert (hits.count, hits.n) == (right, len(pairs))
        least, most = commitment.gaps(pairs, True)[0], commitment.gaps(pairs, False)[-1]
        assert f"{least:.2f} or more ({sum(flags)})" in page
        assert f"{most:.2f} or less ({len(flags) - sum(flags)})" in page
    again = commitment.trained_again(everyone)
    same = [commitment.mechanism(a) == commitment.mechanism(b) for a, b in again]
    assert f"{sum(same)} of {len(same)} have the same mechanism" in page
    assert all(commitment.keeps_parity(a) == commitment.keeps_parity(b) for a, b in again)


def test_the_page_on_foresight_tells_these_numbers(request):
    root = request.config.rootpath
    models = foresight.read(root)
    page = " ".join((root / "docs/findings/foresight.md").read_text().split())
    for family, name in (("gpt2", "GPT-2"), ("pythia", "Pythia")):
        mine = [model for model in models if model.family == family]
        for kind in ("associative", "parity-associative", "composed-quotient"):
            early = [model.early for model in mine if model.end == kind]
            low, middle, high = np.percentile(early, [25, 50, 75])
            row = f"| {name}, {kind} | {len(early)} | {middle:.1f} | {low:.1f} to {high:.1f} |"
            assert row in page
    numbers = foresight.outcomes(models).values()
    assert all(f"| {number:.2f} | {n} |" in page for number, n, _ in numbers)
    assert max(p for _, p in foresight.planned_tests(models).values()) < 0.001
