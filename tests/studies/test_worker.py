"""One worker: early verdicts, failures, stopping, and the table at the end."""

import csv
import json

import pyarrow.parquet as pq
import pytest

from statetrace.config.recipe import Recipe
from statetrace.runs import Run
from statetrace.studies import cell as cells
from statetrace.studies import leases
from statetrace.studies.folder import DEATHS
from statetrace.studies.survey import Survey
from statetrace.studies.table import results, write_table
from statetrace.studies.worker import work
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from tests.studies.conftest import contents, prepared, undisturbed

BROKEN = """
[grid.initialisation.scratch]

[grid.initialisation.broken]
learning_rate = 1e38
clip = 0.0
"""


def states(study):
    return {one.cell.name: one.state for one in Survey(study).look()}


def test_a_cell_is_the_run_that_train_would_make(tmp_path):
    study = undisturbed(tmp_path, seeds=1)
    (cell,) = study.plan.cells
    plain = Run(tmp_path / "plain")
    train(Recipe.of(dict(cell.recipe)), plain, Callback())
    theirs = study.run(cell)
    assert (plain.path / "metrics.jsonl").read_bytes() == (
        theirs.path / "metrics.jsonl"
    ).read_bytes()
    assert [step for step, _ in theirs.checkpoints()] == [6, 10, 12, 18, 24, 30]
    for step, folder in plain.checkpoints():
        for file in folder.iterdir():
            assert file.read_bytes() == (theirs.checkpoint(step) / file.name).read_bytes()
    assert study.early(cell)["step"] == 10
    assert study.outcome(cell)["final"]["step"] == 30


def test_the_full_verdict_is_made_at_the_end(tmp_path):
    study = undisturbed(tmp_path, seeds=1, verdict="full")
    (cell,) = study.plan.cells
    outcome = study.outcome(cell)
    assert "mechanism" not in outcome["early"]
    assert (outcome["final"]["mechanism"], outcome["final"]["confidence"]) == ("unlearned", 1.0)
    (row,) = results(study)
    assert (row["verdict"], row["confidence"], row["early_verdict"]) == (
        "unlearned", 1.0, "unlearned",
    )  # fmt: skip


def test_what_is_done_is_skipped(tmp_path, monkeypatch):
    study = undisturbed(tmp_path, seeds=1)
    before = contents(study)
    monkeypatch.setitem(cells.KINDS, "train", lambda *_: pytest.fail("it was done already"))
    assert work(study) == 0
    assert contents(study) == before


def test_what_another_worker_ends_meanwhile_is_not_leased(tmp_path, monkeypatch):
    study = prepared(tmp_path, rules='work = "nothing"', seeds=3)
    last, nothing = study.plan.cells[-1], cells.KINDS["nothing"]

    def another(study, batch, stop):
        study.end(last, "finished", {"final": {}})
        return nothing(study, batch, stop)

    monkeypatch.setitem(cells.KINDS, "nothing", another)
    assert work(study) == 2
    assert not list((study.path / "claims").glob(f"{last.name}.*"))


def test_the_early_verdict_may_be_the_last(tmp_path):
    study = undisturbed(tmp_path, seeds=1, rules="train_on = false")
    (cell,) = study.plan.cells
    assert [step for step, _ in study.run(cell).checkpoints()] == [6, 10]
    outcome = study.outcome(cell)
    assert outcome["final"] == outcome["early"] == study.early(cell)


def test_a_failing_cell_is_retried_reported_and_the_rest_finish(tmp_path):
    study = prepared(tmp_path, seeds=1, grid=BROKEN, rules="retries = 1")
    said = []
    work(study, on_message=said.append)
    assert states(study) == {"scratch_seed-0": "finished", "broken_seed-0": "failed"}
    broken = study.cell("broken_seed-0")
    outcome = study.outcome(broken)
    assert "the loss became" in outcome["why"]
    assert outcome["tries"] == len(study.failures(broken)) == 2
    assert [words.split(":")[1].split(" and")[0] for words in said if "broken" in words] == [
        " started", " failed", " started", " failed",
    ]  # fmt: skip
    assert "NonFiniteLoss" in (study.path / "failures" / "broken_seed-0.txt").read_text()
    file = write_table(results(study), study.path / "results.parquet")
    rows = {row["cell"]: row for row in pq.read_table(file).to_pylist()}
    assert rows["broken_seed-0"]["why"] == outcome["why"]
    assert rows["broken_seed-0"]["verdict"] is None
    good = rows["scratch_seed-0"]
    assert good["initialisation"] == "scratch"
    assert good["state"] == "finished"
    assert good["step"] == 30
    assert good["early_step"] == 10
    assert good["verdict"] == good["quick_verdict"] == "unlearned"
    assert 0 < good["accuracy"] < 1
    with file.with_suffix(".csv").open() as lines:
        assert [row["cell"] for row in csv.DictReader(lines)] == list(rows)
    assert study.forget_failed() == ["broken_seed-0"]
    assert states(study)["broken_seed-0"] == "waiting"


def test_a_stopped_cell_goes_on_where_it_was(tmp_path):
    whole = undisturbed(tmp_path, seeds=1)
    study = prepared(tmp_path, seeds=1)
    (cell,) = study.plan.cells
    for steps, judged in ((4, False), (9, True), (12, True)):  # before the early verdict, behind it
        left = iter(range(steps))
        work(study, stop=lambda left=left: next(left, None) is None)
        assert states(study) == {cell.name: "waiting"}
        (row,) = results(study)
        assert (row["early_step"], row["step"]) == (10 if judged else None, None)
        assert (row["early_verdict"] is not None) == judged
    work(study)
    same = contents(study)
    assert contents(whole).items() <= same.items()
    assert len(json.loads((study.run(cell).path / "run.json").read_text())["sessions"]) == 5


def test_seeds_may_be_trained_together(tmp_path):
    """All but one cell in one program; the one that fails is done alone and reported."""
    alone = undisturbed(tmp_path, seeds=3, settings="init_std = 0.05", dropout=0.0)
    about = {"seeds": 3, "dropout": 0.0, "rules": "together = 8\nretries = 0"}
    study = prepared(tmp_path, settings="init_std = 0.05", **about)
    said = []
    left = iter(range(14))  # stopped in the middle, behind the early verdict
    work(study, stop=lambda: next(left, None) is None, on_message=said.append)
    assert [words.split(": ")[1][:7] for words in said] == ["started"] * 3 + ["stopped"] * 3
    work(study)
    assert states(study) == {f"seed-{n}": "finished" for n in range(3)}
    for cell in study.plan.cells:
        ours, theirs = study.outcome(cell), alone.outcome(cell)
        for when in ("early", "final"):
            for key in ("accuracy", "parity_accuracy"):
                assert ours[when][key] == pytest.approx(theirs[when][key], abs=0.01)
            assert ours[when]["step"] == theirs[when]["step"]
        assert len(list((study.path / "claims").glob(f"{cell.name}.*"))) == 2


def test_two_workers_do_not_divide_a_stack(tmp_path):
    """Unless the first worker could not lease all of it."""
    study = prepared(tmp_path, seeds=3, dropout=0.0, rules="together = 3")
    cells = study.plan.cells
    with leases.take(study.path / "claims", cells[0].name):
        assert work(study) == 0
    with leases.take(study.path / "claims", cells[2].name):
        assert work(study) == 2
    assert len(study.ended()) == 2


def test_seeds_of_a_chain_may_be_trained_together(tmp_path):
    """Stopped in their first stage, and looked at early in the last."""
    chain = """[grid.regime]
chain = { stages = [
    { objective = "topic", table = "paper-1", steps = 8 },
    { objective = "state", auxiliary = "parity" },
] }"""
    about = {"seeds": 3, "dropout": 0.0, "grid": chain}
    alone = undisturbed(tmp_path, **about)
    study = prepared(tmp_path, rules="together = 8", **about)
    said, left = [], iter(range(4))
    work(study, stop=lambda: next(left, None) is None, on_message=said.append)
    assert {study.position(cell) for cell in study.plan.cells} == {"1-topic:3"}
    work(study, on_message=said.append)
    heard = [words.split(": ")[1][:7] for words in said]
    assert heard == ["started"] * 3 + ["stopped"] * 3 + ["started"] * 3 + ["finishe"] * 3
    for cell in study.plan.cells:
        ours, theirs = study.outcome(cell), alone.outcome(cell)
        for when, step in (("early", 10), ("final", 30)):
            assert ours[when]["step"] == theirs[when]["step"] == step
            assert ours[when]["accuracy"] == pytest.approx(theirs[when]["accuracy"], abs=0.01)
        assert study.position(cell) == alone.position(cell) == "1-topic:8 :30"


def test_a_seed_that_fails_in_company_is_done_alone(tmp_path, monkeypatch):
    study = prepared(tmp_path, seeds=3, dropout=0.0, rules="together = 8")

    def broken(*_):
        raise RuntimeError("one of them went wrong")

    monkeypatch.setattr("statetrace.studies.stacked.train_together", broken)
    work(study)
    assert states(study) == {f"seed-{n}": "finished" for n in range(3)}
    assert [study.outcome(cell)["tries"] for cell in study.plan.cells] == [2, 2, 2]
    assert study.failures(study.cell("seed-1"))[0]["why"] == "RuntimeError: one of them went wrong"


def test_errors_count_only_without_progress_and_deaths_hardly(tmp_path):
    study = prepared(tmp_path, seeds=1, rules="retries = 1")
    (cell,) = study.plan.cells
    for step in (6, 12, 18):
        study.run(cell).checkpoint(step).mkdir(parents=True)
        study.add_failure(cell, "an error", "someone")
    for _ in range(DEATHS - 1):
        study.add_failure(cell, "its worker died", "someone", died=True)
    assert not study.gave_up(cell)
    study.add_failure(cell, "its worker died", "someone", died=True)
    assert study.gave_up(cell)
    study.run(cell).checkpoint(24).mkdir(parents=True)
    study.add_failure(cell, "an error", "someone")
    assert not study.gave_up(cell)
    study.add_failure(cell, "an error", "someone")
    assert study.gave_up(cell)
