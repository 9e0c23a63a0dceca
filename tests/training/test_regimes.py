"""Each regime changes what it should, on a model that learns sequences of four in a second."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.models import anatomy, load_checkpoint
from statetrace.models.from_recipe import make_task
from statetrace.runs import Run
from statetrace.tasks.batch import UNSUPERVISED
from statetrace.tasks.text import read_bytes, windows
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training import setup
from statetrace.training.auxiliary import AuxiliaryTask, Labels
from statetrace.training.loop import train
from statetrace.training.objectives.states import Cosets
from statetrace.training.parallel import World
from statetrace.training.trainer import predict
from tests.training.conftest import Recorder, staged
from tests.training.test_stages import assert_same_bytes, killed

QUICK = {
    "length": 4,
    "dropout": 0.0,
    "init_std": 0.06,
    "sequences": 1000,
    "batch": 64,
    "learning_rate": 5e-3,
    "schedule": "constant",
    "warmup": 20,
    "evaluate_every": 1000,
    "evaluate_sequences": 200,
    "checkpoint_every": 1000,
    "log_every": 50,
}
STATE = {"objective": "state", "steps": 200}
CHANCE, PARITY_ALONE = 1 / 6, 1 / 3


def trained(folder, *stages, **changes) -> Run:
    run = Run(folder / "run")
    assert train(staged(*stages, **QUICK | changes), run, Recorder()).finished
    return run


def accuracy(run: Run, kind: str, stage: str | None = None) -> list[dict[str, float]]:
    return [record["accuracy"] for record in run.metrics(kind) if record.get("stage") == stage]


def plan_of(*stages, **changes) -> setup.TrainingPlan:
    recipe = staged(*stages, **QUICK | changes)
    return setup.make_plan(recipe, World(0, 1, torch.device("cpu")))


# Parity, or any quotient, first


def test_a_parity_stage_teaches_parity_and_not_the_state(tmp_path):
    run = trained(tmp_path, {"objective": "parity", "steps": 200}, STATE)
    after = accuracy(run, "evaluation", "1-parity")[-1]
    assert after["parity"] > 0.9
    assert after["state"] < PARITY_ALONE + 0.1
    assert accuracy(run, "objective", "1-parity")[-1] == {"parity": after["parity"]}
    assert accuracy(run, "evaluation", "2-state")[-1]["state"] > after["state"] + 0.1


def test_the_loss_of_a_quotient_against_a_loop():
    """-log of the probability of the whole coset; the start marker asks for nothing."""
    of = group("S4").quotient("S3")
    vocabulary = Vocabulary.plain(24)
    cosets = Cosets(of, vocabulary, "cpu")
    logits = torch.randn(3, 5, 25, generator=torch.Generator().manual_seed(0), requires_grad=True)
    targets = torch.randint(0, 24, (3, 5), generator=torch.Generator().manual_seed(1))
    targets[:, 0] = UNSUPERVISED
    value = cosets.loss(logits, targets)
    terms = []
    for row, position in [(b, t) for b in range(3) for t in range(1, 5)]:
        image = of.map[int(targets[row, position])]
        members = [g for g in range(24) if of.map[g] == image]
        terms.append(-logits[row, position].softmax(-1)[members].sum().log())
    assert value.item() == pytest.approx(torch.stack(terms).mean().item(), abs=1e-5)
    value.backward()
    assert (logits.grad[:, 0] == 0).all()
    assert torch.isfinite(logits.grad).all()
    answers = torch.tensor([[of.kernel[0], of.kernel[1], 24]])
    same = torch.full((1, 3), of.kernel[2])
    assert cosets.correct(answers, same).tolist() == [[True, True, False]]


def test_any_quotient_by_name(tmp_path):
    chain = {"objective": "S3", "steps": 2}, {"objective": "state", "steps": 1}
    run = trained(tmp_path, *chain, group="S4", warmup=0, quotients="parity")
    assert list(accuracy(run, "objective", "1-S3")[0]) == ["S3"]
    with pytest.raises(StatetraceError, match=r"objective 'Z3' is unknown.*quotients are parity"):
        plan_of({"objective": "Z3"}, STATE)


# The control


def test_the_control_teaches_nothing_and_harms_nothing(tmp_path):
    run = trained(tmp_path, {"objective": "control", "steps": 100}, STATE | {"steps": 250})
    last = run.metrics("objective")[-1]
    assert last["loss"] == pytest.approx(math.log(6), abs=0.05)
    assert last["accuracy"]["next token"] == pytest.approx(CHANCE, abs=0.05)
    assert accuracy(run, "evaluation", "1-control")[-1]["state"] == pytest.approx(CHANCE, abs=0.08)
    assert accuracy(run, "evaluation", "2-state")[-1]["state"] > 0.45


# An auxiliary loss on an early layer


def parity_at(run: Run, layer: int) -> float:
    """Accuracy of a least-squares probe of parity on the residual stream after a block."""
    model = load_checkpoint(run.checkpoints()[-1][1])
    streams = []
    anatomy(model).blocks[layer - 1].register_forward_hook(
        lambda m, i, output: streams.append(output)
    )
    task = make_task(staged(**QUICK))
    sequences = task.sample(600, seed=5)
    with torch.no_grad():
        predict(model, task.split(sequences).rows(slice(None)).tokens)
    resid = streams[0][:, -1].double()  # the last position, where parity is hardest
    resid = torch.cat([resid, torch.ones(len(resid), 1, dtype=torch.float64)], dim=1)
    signs = torch.from_numpy(2.0 * task.group.parity[sequences.states[:, -1]] - 1)
    fit = torch.linalg.lstsq(resid[:400], signs[:400, None]).solution
    return ((resid[400:] @ fit)[:, 0] * signs[400:] > 0).double().mean().item()


def test_the_auxiliary_classifier_reads_parity_where_it_was_not(tmp_path):
    with_loss = trained(tmp_path / "with", STATE | {"auxiliary": "parity"})
    before, after = accuracy(with_loss, "auxiliary")
    assert before == {"parity at layer 1": pytest.approx(0.5, abs=0.05)}
    assert after["parity at layer 1"] > 0.9
    without = trained(tmp_path / "without", STATE)
    assert parity_at(with_loss, 1) > parity_at(without, 1) + 0.1


def test_parity_and_action_in_one_class(tmp_path):
    auxiliary = {"auxiliary": "parity,action", "auxiliary_layer": 2, "auxiliary_weight": 2.0}
    run = trained(tmp_path, STATE | auxiliary)
    last = accuracy(run, "auxiliary")[-1]
    assert last["parity at layer 2"] >= last["parity, action at layer 2"] > 0.8


@pytest.mark.parametrize("form", ["tokens", "text"])
def test_the_classes_are_those_of_state_and_action(form):
    """Of actions that are tokens and of sentences, whose last token is the same for all."""
    task = make_task(staged(**QUICK | {"form": form}))
    drawn = task.sample(50, seed=3)
    batch = task.split(drawn).rows(slice(None))
    of = task.group.quotient("parity")
    for action in (True, False):
        labels = Labels(AuxiliaryTask(task.group, of, action, 1, 1.0, task.vocabulary))(
            batch.targets
        )
        assert torch.equal(labels == UNSUPERVISED, ~batch.mask)
        expected = of.map[drawn.states].astype("int64")
        if action:
            expected = expected * 6 + drawn.actions
        assert labels[batch.mask].tolist() == expected.ravel().tolist()


def test_a_run_with_an_auxiliary_loss_resumes_exactly(tmp_path):
    chain = staged(
        {"objective": "state", "auxiliary": "parity", "steps": 9, "checkpoint_every": 4},
        {"objective": "state", "steps": 3},
        **QUICK | {"warmup": 0, "log_every": 1},
    )
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    train(chain, whole, Recorder())
    killed(chain, run, ("1-state", "step", 6))
    assert train(chain, run, Recorder(), resume=True).finished
    assert_same_bytes(whole, run)
    assert (run.stage("1-state").checkpoint(9) / "auxiliary.safetensors").is_file()
    assert not (run.checkpoint(3) / "auxiliary.safetensors").exists()


@pytest.mark.parametrize(
    ("stage", "complaint"),
    [
        ({"auxiliary": "parity", "auxiliary_layer": 3}, "auxiliary_layer 3 .* 2 layers"),
        ({"auxiliary": "parity,mood"}, "auxiliary 'parity,mood' is not valid"),
        ({"auxiliary": "Z3"}, "no quotient 'Z3'"),
        ({"auxiliary_layer": 1}, "auxiliary_layer 1 has no effect"),
        ({"objective": "control", "auxiliary": "parity"}, "auxiliary has no effect .* 'control'"),
    ],
)
def test_auxiliary_losses_that_make_no_sense(stage, complaint):
    with pytest.raises(StatetraceError, match=complaint):
        plan_of(stage)


# A length curriculum


def test_stages_of_a_curriculum_see_only_their_lengths(tmp_path, monkeypatch):
    calls = []

    def spy(model, tokens):
        calls.append((model.training, tokens.shape[1] - 1))
        return predict(model, tokens)

    monkeypatch.setattr("statetrace.training.trainer.predict", spy)
    lengths = [1, 2, 4]
    run = trained(tmp_path, *(STATE | {"steps": 20 + n, "length": n} for n in lengths))
    assert calls == [(True, n) for n in lengths for _ in range(20 + n)]
    for record in run.metrics("evaluation"):  # generalisation is measured at all lengths
        assert len(record["accuracy_by_length"]["state"]) == 4
    learned = [r for r in run.metrics("evaluation") if r["stage"] == "1-state"][-1]
    assert learned["accuracy_by_length"]["state"][0] == 1.0


def test_a_stage_is_judged_by_its_own_lengths(tmp_path):
    """One action is soon known; at four the accuracy is far from 0.99, and nobody waits for it."""
    first = {"objective": "state", "length": 1, "steps": 500, "stop_at": 0.99, "evaluate_every": 10}
    run = trained(tmp_path, first, {"objective": "state", "steps": 1, "warmup": 0})
    assert run.stage("1-state").checkpoints()[-1][0] < 500
    assert accuracy(run, "evaluation", "1-state")[-1]["state"] < 0.9


# Text


@pytest.fixture
def book(tmp_path):
    """A text with something to learn: words from a small set, in random order."""
    words = np.random.default_rng(0).choice(["tabula ", "rasa ", "mens ", "sana "], 3000)
    (tmp_path / "book.txt").write_text("".join(words))
    return str(tmp_path / "book.txt")


def test_a_text_stage_learns_the_text_and_hands_on_the_body(tmp_path, book):
    reading = {"objective": "text", "file": book, "steps": 60}
    run = trained(tmp_path, reading, STATE | {"steps": 100})
    first, last = run.metrics("objective")
    assert last["loss"] < first["loss"] / 2
    assert [r["stage"] for r in run.metrics("evaluation")] == ["2-state"] * 2
    assert run.metrics("evaluation")[-1]["loss"] < run.metrics("evaluation")[0]["loss"] - 0.5
    plan = plan_of(reading, STATE)
    folder = run.stage("1-text").checkpoint(60)
    before = load_checkpoint(folder).state_dict()
    after = setup.make_model(plan.at(plan.recipe.stages[1]), folder).state_dict()
    vocabulary = {"transformer.wte.weight", "lm_head.weight"}
    assert before.keys() == after.keys() > vocabulary
    for name in before.keys() - vocabulary:
        assert torch.equal(before[name], after[name]), name
    old, new = (weights["transformer.wte.weight"] for weights in (before, after))
    assert (len(old), len(new)) == (257, 7)
    spread = new.std(0).mean() / old.std(0).mean()
    assert 0.7 < spread < 1.3  # not collapsed to their mean


def test_what_has_read_a_text_is_a_pretrained_start_for_other_runs(tmp_path, book):
    first = {"objective": "text", "file": book, "steps": 3}
    run = trained(tmp_path, first, STATE | {"steps": 1}, warmup=0)
    folder = run.stage("1-text").checkpoint(3)
    sizes = {"layers": None, "width": None, "heads": None, "init_std": None}
    chain = {"objective": "parity", "steps": 2}, STATE | {"steps": 2}
    start = sizes | {"pretrained": str(folder), "warmup": 0}
    other = trained(tmp_path / "other", *chain, **start)
    assert other.metrics("evaluation")[-1]["stage"] == "2-state"
    body = "transformer.h.0.attn.c_attn.weight"
    begun = setup.make_model(plan_of(*chain, **start)).state_dict()[body]
    assert torch.equal(begun, load_checkpoint(folder).state_dict()[body])


def test_killed_on_the_way_from_text_to_states(tmp_path, book):
    chain = staged(
        {"objective": "text", "file": book, "steps": 5},
        {"objective": "state", "steps": 5},
        **QUICK | {"warmup": 0, "checkpoint_every": 3, "log_every": 1},
    )
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    train(chain, whole, Recorder())
    for moment in (("1-text", "step", 4), ("2-state", "entered"), ("2-state", "step", 3)):
        killed(chain, run, moment)
    assert train(chain, run, Recorder(), resume=True).finished
    assert_same_bytes(whole, run)


def test_a_text_that_was_changed_is_noticed(tmp_path, book):
    chain = {"objective": "text", "file": book, "steps": 5}, STATE | {"steps": 1}
    recipe, run = staged(*chain, **QUICK | {"warmup": 0}), Run(tmp_path / "run")
    train(recipe, run, Recorder(stop_after=[3]))
    before = Path(book).read_text()
    Path(book).write_text(before.upper())
    with pytest.raises(StatetraceError, match=r"data of stage 1-text have changed since .*step-3"):
        train(recipe, run, Recorder(), resume=True)
    Path(book).write_text(before)
    assert train(recipe, run, Recorder(), resume=True).finished


def test_pieces_of_a_text(tmp_path, book):
    data = Path(book).read_bytes()
    training, held_out = read_bytes(book, 8)
    assert training.tobytes() + held_out.tobytes() == data
    assert len(held_out) == round(len(data) / 10)
    for row in windows(training, np.random.default_rng(0), 20, 8):
        assert row.tobytes() in data
    (tmp_path / "short.txt").write_text("too short")
    with pytest.raises(StatetraceError, match=r"short.txt' has only 9 bytes; documents of 8 need"):
        read_bytes(str(tmp_path / "short.txt"), 8)


@pytest.mark.parametrize(
    ("stages", "complaint"),
    [
        ([{"objective": "text"}, STATE], "needs a file"),
        ([{"objective": "text", "file": "nowhere.txt"}, STATE], "'nowhere.txt' cannot be read"),
        ([{"objective": "text", "file": "README.md"}], "cannot be the last stage"),
        ([{"objective": "topic", "file": "README.md"}], "file has no effect on objective 'topic'"),
    ],
)
def test_text_stages_that_make_no_sense(stages, complaint):
    with pytest.raises(StatetraceError, match=complaint):
        plan_of(*stages)
