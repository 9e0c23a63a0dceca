"""Training: it learns, it is exact, and it stops when it must."""

import math
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.models.predict import predict
from statetrace.runs import Run
from statetrace.tasks.sequences import unique_sequences
from statetrace.training import loop, setup
from statetrace.training.evaluate import loss
from statetrace.training.loop import train
from statetrace.training.optimizer import current_length, learning_rate
from statetrace.training.parallel import World
from statetrace.training.trainer import NonFiniteLoss
from tests.training.conftest import toy


def weights(run: Run) -> dict[str, torch.Tensor]:
    _, folder = run.checkpoints()[-1]
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def assert_same_run(one: Run, other: Run) -> None:
    assert one.metrics() == other.metrics()
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name


def test_what_a_run_folder_holds(uninterrupted):
    info = uninterrupted.info
    assert info["recipe"] == toy().to_dict()
    assert info["sessions"][-1]["ended"] == "finished"
    assert set(info["versions"]) >= {"statetrace", "torch", "transformers", "python"}
    assert [step for step, _ in uninterrupted.checkpoints()] == [8, 16, 24]
    evaluations = uninterrupted.metrics("evaluation")
    assert [record["step"] for record in evaluations] == [0, 8, 16, 24]
    for record in evaluations:
        assert set(record["accuracy_by_length"]) == {"state", "parity"}
        assert len(record["accuracy_by_length"]["state"]) == len(record["loss_by_length"]) == 6
    assert [record["step"] for record in uninterrupted.metrics("training")] == list(range(1, 25))


def test_it_learns(uninterrupted):
    first, *_, last = uninterrupted.metrics("evaluation")
    assert last["loss"] < first["loss"] - 0.1
    assert last["accuracy_by_length"]["state"][0] > 0.95  # s_0 is a_0


def test_the_same_seed_gives_the_same_run(uninterrupted, tmp_path, recorder):
    train(toy(), Run(tmp_path / "again"), recorder())
    assert_same_run(uninterrupted, Run(tmp_path / "again"))


@pytest.mark.parametrize("change", [{"seed": 1}, {"init_seed": 1}, {"data_seed": 1}])
def test_every_seed_matters(uninterrupted, tmp_path, recorder, change):
    train(toy(**change), Run(tmp_path / "other"), recorder())
    assert Run(tmp_path / "other").metrics() != uninterrupted.metrics()


@pytest.mark.parametrize("stops", [[5], [8], [3, 11, 20], [23]])
def test_stopping_and_resuming_changes_nothing(uninterrupted, tmp_path, recorder, stops):
    """GPT-2 has dropout, so the random masks must continue too."""
    run = Run(tmp_path / "run")
    done = 0
    for stop in stops:
        outcome = train(toy(), run, recorder(stop_after=[stop - done]), resume=True)
        assert (outcome.step, outcome.finished) == (stop, False)
        done = stop
    assert train(toy(), run, recorder(), resume=True).finished
    assert_same_run(uninterrupted, run)
    assert [s["ended"] for s in run.info["sessions"]] == ["stopped"] * len(stops) + ["finished"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda log: log.unlink(),
        lambda log: log.write_bytes(log.read_bytes()[:50]),
        lambda log: log.write_bytes(bytes(len(log.read_bytes()))),
        lambda log: log.write_text(log.read_text().replace("1", "2")),
        lambda log: log.write_text('{"kind": "evaluation", "step": 8}\n'),
    ],
    ids=["deleted", "truncated", "zeroed", "changed", "replaced"],
)
def test_a_damaged_log_is_restored(uninterrupted, tmp_path, recorder, damage):
    run, heard = Run(tmp_path / "run"), recorder()
    train(toy(), run, recorder(stop_after=[13]))
    damage(run.path / "metrics.jsonl")
    assert train(toy(), run, heard, resume=True).finished
    assert_same_run(uninterrupted, run)
    assert any("metrics.jsonl was damaged" in message for message in heard.messages)


def test_resume_of_a_finished_run_touches_nothing(uninterrupted, recorder):
    before = uninterrupted.info, uninterrupted.metrics()
    heard = recorder()
    assert train(toy(), uninterrupted, heard, resume=True).finished
    assert (uninterrupted.info, uninterrupted.metrics()) == before
    assert "all 24 steps are done" in heard.messages[-1]


def test_a_run_is_not_overwritten(uninterrupted, recorder):
    with pytest.raises(StatetraceError, match=r"already holds a run; .*--resume"):
        train(toy(), uninterrupted, recorder())
    with pytest.raises(StatetraceError, match="steps 9, not 24"):
        train(toy(steps=9), uninterrupted, recorder(), resume=True)


def test_a_run_may_be_prolonged(uninterrupted, tmp_path, recorder):
    shutil.copytree(uninterrupted.path, tmp_path / "copy")
    run = Run(tmp_path / "copy")
    outcome = train(toy(steps=30), run, recorder(), resume=True)
    assert (outcome.step, outcome.finished) == (30, True)
    assert run.recipe["training"]["steps"] == 30
    assert run.metrics()[: len(uninterrupted.metrics())] == uninterrupted.metrics()


@pytest.mark.parametrize("stops", [[], [5], [8], [3, 9, 14]])
def test_a_run_that_has_not_learned_prolongs_itself_also_across_a_resume(tmp_path, recorder, stops):
    """After 8 steps to 11 and 13, with the rates of a run that has had as many from the start."""
    recipe, run, heard = toy(steps=8, most_steps=13), Run(tmp_path / "run"), recorder()
    done = 0
    for stop in stops:
        train(recipe, run, recorder(stop_after=[stop - done]), resume=True)
        done = stop
    assert train(recipe, run, heard, resume=True).step == 13
    rates = [record["learning_rate"] for record in run.metrics("training")]
    expected = [8] * 8 + [11] * 3 + [13] * 2
    assert rates == [
        learning_rate(toy(steps=steps).training, step) for step, steps in enumerate(expected)
    ]
    whole = Run(tmp_path / "whole")
    train(recipe, whole, recorder())
    assert_same_run(whole, run)
    assert run.recipe == recipe.to_dict()


def test_a_run_that_has_learned_is_not_prolonged(tmp_path, recorder, monkeypatch):
    monkeypatch.setattr(loop, "SOLVED", 0.05)  # chance is 1/6
    assert train(toy(most_steps=48), Run(tmp_path / "run"), recorder()).step == 24


def test_learned_at_two_evaluations_in_a_row_also_across_a_resume(tmp_path, recorder):
    """Chance is 1/6, so every evaluation passes; the first is at step 8."""
    recipe = toy(stop_learned=0.05)
    whole, halves = Run(tmp_path / "whole"), Run(tmp_path / "halves")
    assert train(recipe, whole, recorder()).step == 16
    train(recipe, halves, recorder(stop_after=[12]))
    assert train(recipe, halves, recorder(), resume=True).step == 16
    assert_same_run(whole, halves)


def test_checkpoints_of_unknown_origin_are_not_continued(uninterrupted, tmp_path, recorder):
    shutil.copytree(uninterrupted.path, tmp_path / "copy")
    for file in [tmp_path / "copy" / "run.json", *tmp_path.rglob("training.json")]:
        file.unlink()
    with pytest.raises(StatetraceError, match=r"holds checkpoints but no run\.json"):
        train(toy(width=16), Run(tmp_path / "copy"), recorder())


def test_two_processes_cannot_train_in_one_folder(tmp_path, recorder):
    run = Run(tmp_path / "run")
    with run.lock(), pytest.raises(StatetraceError, match="another process is training"):
        train(toy(), run, recorder())


def test_a_damaged_checkpoint_is_passed_over(uninterrupted, tmp_path, recorder):
    run = Run(tmp_path / "run")
    train(toy(), run, recorder(stop_after=[18]))
    file = run.checkpoint(18) / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (run.checkpoint(16) / "optimizer.safetensors").unlink()
    half_written = run.path / "checkpoints" / ".step-20.writing"
    half_written.mkdir()
    heard = recorder()
    train(toy(), run, heard, resume=True)
    assert "step-18 is damaged (model.safetensors does not match" in heard.messages[0]
    assert "step-16 is damaged (optimizer.safetensors is missing" in heard.messages[1]
    assert_same_run(uninterrupted, run)


def test_keep_drops_old_checkpoints(tmp_path, recorder):
    run = Run(tmp_path / "run")
    train(toy(keep=2), run, recorder())
    assert [step for step, _ in run.checkpoints()] == [16, 24]


def test_accumulation_is_the_same_batch(tmp_path, recorder):
    """In two parts, up to rounding; dropout off, since its masks depend on the shape."""
    runs = [Run(tmp_path / str(parts)) for parts in (1, 4)]
    for run, parts in zip(runs, (1, 4), strict=True):
        train(toy(accumulate=parts, dropout=0.0), run, recorder())
    one, four = ([r["loss"] for r in run.metrics("training")] for run in runs)
    assert one == pytest.approx(four, abs=1e-4)
    assert one != four


def test_a_non_finite_loss_keeps_the_last_good_checkpoint(tmp_path, recorder, monkeypatch):
    run = Run(tmp_path / "run")
    rates = {11: math.nan}
    monkeypatch.setattr(
        "statetrace.training.trainer.learning_rate",
        lambda settings, step: rates.get(step, learning_rate(settings, step)),
    )
    with pytest.raises(
        NonFiniteLoss, match=r"became nan at step 13.*step-8; use a learning_rate below"
    ):
        train(toy(log_every=5), run, recorder())
    assert [step for step, _ in run.checkpoints()] == [8]
    assert run.info["sessions"][-1]["ended"].startswith("NonFiniteLoss")
    assert all(torch.isfinite(tensor).all() for tensor in weights(run).values())


def test_every_position_is_supervised_and_none_is_shifted():
    """Also the last one; the start marker is not."""
    plan = setup.make_plan(toy(), World(0, 1, torch.device("cpu")))
    task, model = plan.task, setup.make_model(plan).eval()
    batch = task.split(task.sample(50, seed=0)).rows(slice(0, 50))
    logits = predict(model, batch.tokens)
    logits.retain_grad()
    loss(logits, batch.targets).backward()
    touched = logits.grad.abs().sum((0, 2)) > 0
    assert touched.tolist() == [False] + [True] * 6
    by_hand = -logits[:, 1:].log_softmax(-1).gather(-1, batch.targets[:, 1:, None]).mean()
    assert loss(logits, batch.targets).item() == pytest.approx(by_hand.item(), abs=1e-5)


def test_groups_without_parity_have_no_parity_column(tmp_path, recorder):
    run = Run(tmp_path / "run")
    train(toy(group="Z3", sequences=500, steps=1), run, recorder())
    assert set(run.metrics("evaluation")[-1]["accuracy"]) == {"state"}
    everything = Run(tmp_path / "all")
    train(toy(group="D6", quotients="all", steps=1), everything, recorder())
    quotients = set(everything.metrics("evaluation")[-1]["accuracy"])
    assert quotients >= {"state", "parity"}
    assert len(quotients) > 3


def test_schedules_rise_and_fall():
    settings = toy(steps=100, warmup=10, learning_rate=1.0).training
    rates = [learning_rate(settings, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == max(rates) == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(1 / 90)
    cosine = toy(steps=100, learning_rate=1.0, schedule="cosine").training
    assert learning_rate(cosine, 50) == pytest.approx(0.5)
    trapezoid = toy(steps=100, learning_rate=1.0, schedule="trapezoid").training
    assert learning_rate(trapezoid, 70) == pytest.approx(1.0)
    assert learning_rate(trapezoid, 85) == pytest.approx(0.5)
    constant = toy(steps=100, learning_rate=1.0, schedule="constant").training
    assert learning_rate(constant, 99) == 1.0


def test_sequences_may_grow(tmp_path, recorder):
    settings = toy(steps=100, grow=0.5).training
    lengths = [current_length(settings, step, 12) for step in range(100)]
    assert (lengths[0], lengths[49], lengths[50], lengths[99]) == (3, 12, 12, 12)
    assert lengths == sorted(lengths)
    assert current_length(settings, 0, 2) == 2
    assert {current_length(toy(steps=100).training, step, 12) for step in range(100)} == {12}
    run = Run(tmp_path / "run")
    train(toy(grow=1.0, seed=3), run, recorder())
    assert run.metrics("training")[0]["loss"] != run.metrics("training")[1]["loss"]


def test_bfloat16_on_a_cpu_is_refused(tmp_path, recorder):
    with pytest.raises(StatetraceError, match=r"'bfloat16' .* on a CPU"):
        train(toy(precision="bfloat16"), Run(tmp_path / "run"), recorder())


def test_cuda_where_there_is_none(tmp_path, recorder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(StatetraceError, match="no CUDA GPU; use cpu"):
        train(toy(device="cuda"), Run(tmp_path / "run"), recorder())


def test_resuming_on_other_data_is_refused(tmp_path, recorder):
    """Also where the new folder is valid, of the same group, length and size."""
    s3, data, run = group("S3"), tmp_path / "data", Run(tmp_path / "run")
    unique_sequences(s3, 2000, 6, seed=1).save(data, s3)
    recipe = toy(data=str(data))
    train(recipe, run, recorder(stop_after=[9]))
    unique_sequences(s3, 2000, 6, seed=2).save(data, s3)
    with pytest.raises(StatetraceError, match=r"data of stage .* have changed"):
        train(recipe, run, recorder(), resume=True)
    unique_sequences(s3, 2000, 6, seed=1).save(data, s3)
    assert train(recipe, run, recorder(), resume=True).finished
