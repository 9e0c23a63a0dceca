"""Chains of stages: what each does, when it ends, and that killing one anywhere changes nothing."""

import dataclasses
import os
import signal
import subprocess
import sys
import traceback

import pytest
import torch

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.training import checkpoint, cost
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from statetrace.training.writers import first_steps, scalars
from tests.training.conftest import Recorder, staged, toy
from tests.training.test_loop import assert_same_run, weights

TOPIC = {"objective": "topic", "table": "paper-1", "steps": 12, "checkpoint_every": 5}
STATE = {"objective": "state", "steps": 16, "learning_rate": 1e-3, "warmup": 4}
CHAIN = staged(TOPIC, STATE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("stages") / "whole")
    assert train(CHAIN, run, Recorder()).finished
    return run


def assert_same_bytes(one: Run, other: Run) -> None:
    """The log and every file of every checkpoint of every stage."""
    folders = ("checkpoints", "stages")
    files = [
        {
            str(file.relative_to(run.path)): file.read_bytes()
            for folder in folders
            for file in (run.path / folder).rglob("*")
            if file.is_file()
        }
        | {"metrics": (run.path / "metrics.jsonl").read_bytes()}
        for run in (one, other)
    ]
    assert files[0].keys() == files[1].keys()
    assert [name for name in files[0] if files[0][name] != files[1][name]] == []


def test_what_the_folder_of_a_chain_holds(whole):
    assert [step for step, _ in whole.checkpoints()] == [8, 16]
    assert [step for step, _ in whole.stage("1-topic").checkpoints()] == [5, 10, 12]
    assert whole.info["recipe"] == CHAIN.to_dict()
    assert Recipe.of(whole.recipe) == CHAIN
    rows = [(r["stage"], r["kind"], r["step"]) for r in whole.metrics() if r["kind"] != "training"]
    topic = [("1-topic", kind, n) for n in (0, 8, 12) for kind in ("objective", "evaluation")]
    assert rows == topic + [("2-state", "evaluation", n) for n in (0, 8, 16)]
    assert [r["step"] for r in whole.evaluations()] == [0, 8, 16]


def test_a_stage_starts_from_the_weights_before_it_and_a_fresh_optimizer(whole):
    last_topic, first_state = whole.metrics("evaluation")[2:4]
    assert last_topic["loss"] == first_state["loss"]
    assert last_topic["accuracy_by_length"] == first_state["accuracy_by_length"]
    rates = [r["learning_rate"] for r in whole.metrics("training") if r["stage"] == "2-state"]
    assert rates[:4] == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3])
    name = "transformer.h.0.mlp.c_fc.weight/step"
    assert checkpoint.moments(whole.checkpoint(16))[name] == 16


def test_topics_are_learned_before_states(whole):
    first, *_, last = whole.metrics("objective")
    assert last["loss"] < first["loss"] - 0.5
    assert last["accuracy"]["next token"] > 0.5


def test_a_shuffled_start_has_the_same_entries(tmp_path, whole):
    run = Run(tmp_path / "shuffled")
    state = STATE | {"shuffle": True, "learning_rate": 1e-30, "warmup": 0}
    train(staged(TOPIC, state), run, Recorder())
    before, after = (
        load_checkpoint(folder).get_parameter("transformer.h.0.mlp.c_fc.weight").detach()
        for folder in (whole.stage("1-topic").checkpoint(12), run.checkpoint(16))
    )
    assert not torch.equal(before, after)
    assert torch.equal(before.flatten().sort().values, after.flatten().sort().values)


class Fatal(Callback):
    """Kills its own process, beyond any handler, at a moment of a stage."""

    def __init__(self, moment):
        self.moment, self.stage = moment, None

    def at(self, *here):
        if self.moment == (self.stage, *here):
            os.kill(os.getpid(), signal.SIGKILL)

    def on_stage_start(self, stage):
        self.stage = stage.name
        self.at("entered")

    def on_step(self, step, train_loss):
        self.at("step", step)

    def on_evaluation(self, record):
        self.at(record["kind"], record["step"])


def killed(recipe: Recipe, run: Run, moment: tuple, during=None) -> None:
    """Resume in a child process that dies there; a fork, because importing torch takes seconds."""
    if torch.cuda.is_initialized():
        pytest.skip("after CUDA was used, a forked process cannot train")
    child = os.fork()
    if child == 0:
        try:
            if during is not None:
                during()
            train(recipe, run, Fatal(moment), resume=True)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), moment
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize(
    "moments",
    [
        [("1-topic", "step", 3)],
        [("1-topic", "step", 7), ("1-topic", "evaluation", 12), ("2-state", "step", 5)],
        [("2-state", "entered"), ("2-state", "entered")],
        [("2-state", "evaluation", 0), ("2-state", "step", 1), ("2-state", "evaluation", 16)],
    ],
    ids=["first", "each", "boundary", "second"],
)
def test_sigkill_anywhere_and_resume(whole, tmp_path, moments):
    run = Run(tmp_path / "run")
    for moment in moments:
        killed(CHAIN, run, moment)
    assert train(CHAIN, run, Recorder(), resume=True).finished
    assert_same_bytes(whole, run)


def test_sigkill_while_a_stages_last_checkpoint_is_written(whole, tmp_path):
    def die_at_step_12():
        write = checkpoint.save_file

        def save_file(tensors, file):
            write(tensors, file)
            if "step-12" in str(file):
                os.kill(os.getpid(), signal.SIGKILL)

        checkpoint.save_file = save_file

    run = Run(tmp_path / "run")
    killed(CHAIN, run, (), die_at_step_12)
    assert [step for step, _ in run.stage("1-topic").checkpoints()] == [5, 10]
    assert train(CHAIN, run, Recorder(), resume=True).finished
    assert_same_bytes(whole, run)


@pytest.mark.parametrize("stops", [[5], [12], [13, 20]])
def test_stopping_in_any_stage_and_resuming(whole, tmp_path, stops):
    run, done = Run(tmp_path / "run"), 0
    for stop in stops:
        outcome = train(CHAIN, run, Recorder(stop_after=[stop - done]), resume=True)
        assert not outcome.finished
        stage, step = ("1-topic", stop) if stop <= 12 else ("2-state", stop - 12)
        assert (outcome.stage, outcome.step) == (stage, step)
        done = stop
    assert train(CHAIN, run, Recorder(), resume=True).finished
    assert_same_run(whole, run)
    heard = Recorder()
    assert train(CHAIN, run, heard, resume=True).finished
    assert "all 16 steps are done" in heard.messages[-1]


def test_a_chain_of_one_state_stage_is_a_plain_run(tmp_path):
    plain, one = Run(tmp_path / "plain"), Run(tmp_path / "one")
    train(toy(steps=8), plain, Recorder())
    train(staged({"objective": "state", "steps": 8}), one, Recorder())
    assert_same_run(plain, one)
    assert "stage" not in one.metrics()[0]
    assert not (one.path / "stages").exists()
    assert "stage" not in plain.info["recipe"]


def test_stages_see_different_batches_and_masks(tmp_path):
    """Two stages of the same task do not repeat each other."""
    run = Run(tmp_path / "run")
    same = {"objective": "state", "steps": 3, "learning_rate": 1e-9}
    train(staged(same, same), run, Recorder())
    first, second = (
        [r["loss"] for r in run.metrics("training") if r["stage"] == stage]
        for stage in ("1-state", "2-state")
    )
    assert first != pytest.approx(second, abs=1e-6)


def test_a_stage_ends_by_its_own_rule(tmp_path):
    """The topic's loss falls below 1.5 well before 500 steps; the state stage then begins."""
    chain = staged(TOPIC | {"steps": 500, "stop_loss": 1.5}, STATE | {"stop_at": 0.18})
    run = Run(tmp_path / "run")
    stop = Recorder(stop_after=[3])
    train(chain, run, stop)
    assert train(chain, run, Recorder(), resume=True).finished
    (step, folder) = run.stage("1-topic").checkpoints()[-1]
    assert step < 500
    assert "stop_loss is 1.5" in checkpoint.notes(folder)["ended"]
    assert [r["loss"] <= 1.5 for r in run.metrics("objective")][-2:] == [False, True]
    assert run.checkpoints()[-1][0] == 8
    heard = Recorder()
    assert train(chain, run, heard, resume=True).finished
    assert "stop_at is 0.18" in heard.messages[-1]


def test_stopping_early_in_a_plain_run(tmp_path):
    outcome = train(toy(steps=5000, stop_at=0.3, stop_loss=0.0), Run(tmp_path / "run"), Recorder())
    assert outcome.finished
    assert outcome.step < 5000
    assert Run(tmp_path / "run").metrics("evaluation")[-1]["accuracy"]["state"] >= 0.3


def test_two_processes_train_a_chain_like_one(tmp_path):
    """With a stopping rule and an auxiliary classifier, on which both have to agree."""
    auxiliary = STATE | {"auxiliary": "parity"}
    chain = staged(TOPIC | {"stop_loss": 1.5}, auxiliary, dropout=0.0)
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    train(chain, one, Recorder())
    (tmp_path / "chain.toml").write_text(chain.to_toml())
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "statetrace", "train", tmp_path / "chain.toml"]
    done = subprocess.run(
        [*map(str, command), "--out", str(two.path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    for kind in ("training", "objective", "evaluation"):
        mine, theirs = ([r["loss"] for r in run.metrics(kind)] for run in (one, two))
        assert theirs == pytest.approx(mine, abs=2e-5)
    for name, mine in weights(one).items():
        torch.testing.assert_close(weights(two)[name], mine, atol=2e-4, rtol=0)


def test_every_stages_checkpoint_is_a_model_of_its_own(whole):
    before = load_checkpoint(whole.stage("1-topic").checkpoint(12)).state_dict()
    after = load_checkpoint(whole.checkpoint(16)).state_dict()
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_the_cost_of_a_chain_is_the_sum_of_its_stages():
    chain = staged(TOPIC | {"length": 3}, STATE | {"batch": 64, "stop_at": 0.9})
    estimate = cost.estimate(chain)
    assert [each.stage.name for each in estimate.stages] == ["1-topic", "2-state"]
    assert estimate.steps == 12 + 16
    assert estimate.tokens == 12 * 32 * 4 + 16 * 64 * 7
    assert [each.checkpoints for each in estimate.stages] == [3, 2]
    assert [each.stage.training.may_end_early for each in estimate.stages] == [False, True]
    assert all(each.step_seconds > 0 for each in estimate.stages)
    assert estimate.seconds == sum(each.seconds() for each in estimate.stages) > 0


def test_the_cost_of_the_steps_that_are_left():
    """A second a step; an evaluation of 100 sequences is worth a third of 100 / 32 steps."""
    stage, evaluation = cost.StageCost(toy().stages[0], 7, 1.0), 100 / 32 / 3
    assert stage.seconds(20) == pytest.approx(4 + evaluation)
    assert stage.prolonged(36).seconds(24) == pytest.approx(12 + 2 * evaluation)


def test_writers_count_steps_on(whole):
    assert first_steps(CHAIN) == {"1-topic": 0, "2-state": 12}
    assert first_steps(toy()) == {None: 0}
    names = {name for record in whole.metrics() for name in scalars(record)}
    assert "1-topic/objective/accuracy/next-token" in names
    assert "2-state/evaluation/accuracy/parity" in names


def test_options_are_meant_for_every_stage():
    changed = CHAIN.override({"steps": 3, "warmup": 0, "length": 4})
    assert [stage.training.steps for stage in changed.stages] == [3, 3]
    assert [stage.length for stage in changed.stages] == [4, 4]
    assert changed.stage[0].table == "paper-1"
    assert CHAIN.override({"width": 16}).stage == CHAIN.stage


def test_a_chain_is_not_resumed_as_another(whole):
    other = dataclasses.replace(CHAIN, stage=staged(TOPIC, STATE | {"steps": 99}).stage)
    with pytest.raises(StatetraceError, match="steps 99 in stage 2, not 16"):
        train(other, whole, Recorder(), resume=True)
    with pytest.raises(StatetraceError, match="0 stages, not 2"):
        train(toy(), whole, Recorder(), resume=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[stage]\nsteps = 3", r"'stage' .* write each stage under \[\[stage\]\]"),
        ("[[stage]]\nstepz = 3", r"'stepz' in \[\[stage\]\] number 1 .*did you mean 'steps'"),
        ("[[stage]]\nlength = 101", r"stage 1 \(state\): length 101 is more than the task's 100"),
        ("[[stage]]\nsteps = 9\nwarmup = 9", r"stage 1 \(state\): warmup 9 takes up all 9"),
        ("[[stage]]\nstop_at = 99.5", r"stop_at 99.5 is not"),
        ("[[stage]]\nmixture = -1.0", r"mixture -1.0 is not a Dirichlet"),
        ("[[stage]]\ntable = 'paper-1'\ntopics = 3", r"table 'paper-1' has its own topics"),
        ("[[stage]]\n" * 17, r"17 stages are too many; use at most 16"),
    ],
)
def test_bad_chains_are_quoted(tmp_path, text, complaint):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(StatetraceError, match=complaint):
        Recipe.read(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("stage", "complaint"),
    [
        ({"objective": "dance"}, r"stage 1-dance: objective 'dance' is unknown; use one of state"),
        ({"objective": "state", "table": "paper-1"}, r"table has no effect on objective 'state'"),
        ({"objective": "topic", "shuffle": True}, r"shuffle has no effect on the first stage"),
        ({"objective": "topic", "table": "1 0; 0 1"}, r"table '1 0; 0 1' is not .* 6 weights each"),
        ({"objective": "topic", "table": "paper-9"}, r"table 'paper-9' is unknown; use paper-1"),
    ],
)
def test_chains_that_cannot_be_followed_are_refused_before_anything_is_written(
    tmp_path, stage, complaint
):
    with pytest.raises(StatetraceError, match=complaint):
        train(staged(stage, STATE), Run(tmp_path / "run"), Recorder())
    assert not (tmp_path / "run").exists()
