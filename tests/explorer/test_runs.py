"""Models from run folders: trained here, at any checkpoint, and from elsewhere in plain text."""

import numpy as np
import pytest

from statetrace.config.external import ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.explorer import open_model
from statetrace.explorer.describe import describe_model, first_head
from statetrace.explorer.requests import Request, respond
from statetrace.inspection import Patch, look, make_session, timeline
from statetrace.lenses.attention import attention
from statetrace.lenses.loading import load_external, load_run
from statetrace.lenses.parts.answers import answers
from statetrace.lenses.specs import AttentionSpec
from statetrace.runs import Run
from statetrace.tasks.sequences import Sequences
from statetrace.training.loop import train
from tests.inspection.cases import random_model, zoo
from tests.lenses.test_foreign_text import LENGTH, TEXTS, checkpoint
from tests.training.conftest import Recorder, toy


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    found = Run(tmp_path_factory.mktemp("explorer") / "run")
    train(toy(), found, Recorder())
    return found


def test_a_run_is_opened_at_any_checkpoint(run):
    steps = [step for step, _ in run.checkpoints()]
    assert len(steps) > 1
    answers_at = {}
    for step in (None, steps[0], steps[-1]):
        model = open_model(run.path, device="cpu", step=step)
        subject = load_run(run, step, "cpu")
        drawn = subject.task.sample(5, seed=3)
        for actions, expected in zip(
            drawn.actions.tolist(), answers(subject.model, subject.task, drawn), strict=True
        ):
            assert look(model, actions).answers.argmax(-1).tolist() == expected.tolist()
        answers_at[step] = look(model, drawn.actions[0].tolist()).answers
    np.testing.assert_array_equal(answers_at[None], answers_at[steps[-1]])
    assert np.abs(answers_at[None] - answers_at[steps[0]]).max() > 1e-3
    assert model.options == {"device": "cpu", "step": steps[-1]}
    with pytest.raises(StatetraceError, match="no checkpoint at step 12345"):
        open_model(run.path, step=12345)


def test_the_slider_shows_each_checkpoint_as_if_it_had_been_opened(run):
    session = open_model(run.path, device="cpu")
    steps = [checkpoint["step"] for checkpoint in describe_model(session)["checkpoints"]]
    assert steps == [step for step, _ in run.checkpoints()]
    labels = session.task.group.labels[:3]
    for step in steps:
        alone = open_model(run.path, device="cpu", step=step)
        replies = [
            respond([session], Request(actions=labels, step=step)),
            respond([alone], Request(actions=labels)),
        ]
        codes = [(reply.pop("ms"), reply.pop("python"))[1] for reply in replies]
        assert replies[0] == replies[1]
        assert codes[0] == codes[1] or step == steps[-1]  # the newest needs no step
    with pytest.raises(StatetraceError, match="no checkpoint at step 12345"):
        respond([session], Request(actions=labels, step=12345))


def test_old_checkpoints_make_room_for_new_ones(run, monkeypatch):
    monkeypatch.setattr(timeline, "MEMORY", 1)
    session = open_model(run.path, device="cpu")
    first, *_, last = session.timeline.steps
    early = session.timeline.at(first)
    assert session.timeline.at(first) is early
    for step in session.timeline.steps:
        session.timeline.at(step)
    assert len(session.timeline._sessions) == 2
    assert session.timeline.at(last) is session.timeline.at(last)


def test_plain_text_from_elsewhere(tmp_path):
    folder = checkpoint(tmp_path, TEXTS)
    subject = load_external(
        folder, ExternalCheckpoint("S3", LENGTH, "receives", form="text"), "cpu"
    )
    model = make_session(subject, "theirs")
    drawn = subject.task.sample(8, seed=2)
    for actions, states in zip(drawn.actions, drawn.states, strict=True):
        alone = Sequences(actions[None], states[None])
        expected = answers(subject.model, subject.task, alone)[0]
        view = look(model, actions.tolist())
        assert view.answers.argmax(-1).tolist() == expected.tolist()
        assert view.states.tolist() == states.tolist()
    here, there = drawn.actions[0].tolist(), drawn.actions[1].tolist()
    layers = model.anatomy.layers
    patched = look(model, here, source=there, patches=[Patch(layers, 0, LENGTH - 1)])
    np.testing.assert_allclose(patched.answers, look(model, there).answers, atol=1e-5)
    sentences = describe_model(model)["sentences"]
    assert [sentences[i] for i, label in enumerate(model.task.group.labels)] == [
        TEXTS[label][0] for label in model.task.group.labels
    ]


def test_the_head_shown_first_looks_at_odd_actions():
    """More often than not, as the lens counts it, and far more than by their number."""
    model = zoo()
    layer, head = first_head(model)
    spec = AttentionSpec(examples=100, relabelings=0, ablation_sizes=(), tree_examples=1)
    scores = attention(model.model, model.task, spec).arrays["scores"].mean(-1)
    assert scores[layer - 1, head] > np.quantile(scores, 0.8)
    drawn = model.task.sample(60, seed=5).actions
    odd = model.task.group.parity[drawn] == 1
    maps = np.stack([look(model, a).attention[layer - 1, head, -1, 1:] for a in drawn.tolist()])
    assert maps[odd].mean() > 2 * maps[~odd].mean()
    assert first_head(random_model("recurrent")) is None
