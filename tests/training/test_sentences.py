"""The task in words: it is learned, its checkpoints carry their tokenizer, and it resumes."""

import json
import shutil

import huggingface_hub
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from statetrace.errors import StatetraceError
from statetrace.files import digest, read_json, write_json
from statetrace.lenses.loading import load_run
from statetrace.models import ModelSpec, build, parameter_count
from statetrace.models.from_recipe import make_task, max_length, model_spec
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.cost import estimate
from statetrace.training.loop import train
from statetrace.training.parallel import World
from tests.tasks.test_sentences import byte_level
from tests.training.conftest import Recorder, staged, toy
from tests.training.test_loop import assert_same_run

TEXT = {"form": "text", "length": 4, "sequences": 1000, "dropout": 0.0, "notation": "receives"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that learns something in seconds."""
    recipe = toy(
        **(TEXT | {"sequences": 1296}),
        model="pythia",
        width=64,
        heads=4,
        steps=220,
        batch=64,
        learning_rate=3e-3,
        warmup=10,
        evaluate_every=110,
        evaluate_sequences=200,
        checkpoint_every=110,
    )
    run = Run(tmp_path_factory.mktemp("run") / "text")
    train(recipe, run, Recorder())
    return recipe, run


def test_it_is_learned(trained):
    """On held-out texts: the state after one sentence, and far more than chance after several."""
    _, run = trained
    last = run.metrics("evaluation")[-1]["accuracy_by_length"]
    assert last["state"][0] > 0.95
    assert min(last["state"][:3]) > 1 / 3  # parity alone would give that, chance 1/6
    assert min(last["parity"]) > 0.9


def test_the_checkpoint_is_read_by_transformers_alone(trained):
    """The model answers a text that AutoTokenizer has read, filled up as the task fills it up."""
    _, run = trained
    folder = run.checkpoints()[-1][1]
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    )
    correct = 0
    for text, state in (
        ("<start><pad><pad>Swap positions 2 and 3.", "<132>"),
        ("<start>Rotate the last item to the front.", "<312>"),
        ("<start>Rotate the first item to the back.", "<231>"),
    ):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        assert ids.shape == (1, 9)
        with torch.no_grad():
            predicted = model(ids).logits[0, -1].argmax()
        correct += tokenizer.convert_ids_to_tokens(int(predicted)) == state
    assert correct == 3


def test_it_resumes_bit_for_bit(tmp_path):
    recipe = toy(**TEXT, paraphrases=3)
    train(recipe, Run(tmp_path / "whole"), Recorder())
    run = Run(tmp_path / "run")
    train(recipe, run, Recorder(stop_after=[11]))
    train(recipe, run, Recorder(), resume=True)
    assert_same_run(run, Run(tmp_path / "whole"))


def test_accumulated_parts_are_the_same_texts():
    plan = setup.make_plan(toy(**TEXT, paraphrases=4), World(0, 1, torch.device("cpu")))
    split = plan.training_split
    whole = split.batch(0, 3, 32).tokens
    halves = [split.batch(0, 3, 32, part).tokens for part in (slice(0, 16), slice(16, 32))]
    assert torch.equal(torch.cat(halves), whole)


def test_the_lenses_take_the_checkpoints_own_tokenizer(trained, tmp_path):
    _, run = trained
    subject = load_run(run, None, "cpu")
    assert subject.task.vocabulary.stride == 8
    moved = Run(tmp_path / "moved")
    shutil.copytree(run.path, moved.path)
    folder = moved.checkpoints()[-1][1]
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(StatetraceError, match="is damaged"):
        load_run(moved, moved.checkpoints()[-1][0], "cpu")


def test_resuming_with_another_tokenizer_is_refused(tmp_path):
    byte_level(["swap rotate"]).save(str(tmp_path / "tokenizer.json"))
    recipe, run = toy(**TEXT, tokenizer=str(tmp_path)), Run(tmp_path / "run")
    train(recipe, run, Recorder(stop_after=[9]))
    byte_level(["position front"]).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(StatetraceError, match=r"data of stage .* have changed"):
        train(recipe, run, Recorder(), resume=True)


def test_opening_a_run_fetches_nothing(tmp_path, monkeypatch):
    """Its checkpoint has the tokenizer; one without it is refused, not looked for on a hub."""
    byte_level(["swap rotate"]).save(str(tmp_path / "tokenizer.json"))
    run = Run(tmp_path / "run")
    train(toy(**TEXT | {"steps": 8, "tokenizer": str(tmp_path)}), run, Recorder())
    info, notes = run.info, read_json(run.checkpoint(8) / "training.json")
    for about in (info, notes):
        about["recipe"]["task"]["tokenizer"] = "someone/tokenizer"
    write_json(run.checkpoint(8) / "training.json", notes)
    checksums = read_json(run.checkpoint(8) / "checksums.json")
    checksums["training.json"] = digest(run.checkpoint(8) / "training.json")
    (run.checkpoint(8) / "checksums.json").write_text(json.dumps(checksums))
    run.write_info(info)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: 1 / 0)
    assert load_run(run, None, "cpu").step == 8
    del checksums["tokenizer.json"]
    (run.checkpoint(8) / "checksums.json").write_text(json.dumps(checksums))
    (run.checkpoint(8) / "tokenizer.json").unlink()
    with pytest.raises(StatetraceError, match="'someone/tokenizer', and opening a run fetches"):
        load_run(run, None, "cpu")


@pytest.fixture(scope="module", params=[0, 3, 40])
def pretrained(request, tmp_path_factory):
    """A small GPT-2 of another text, with its own tokenizer and spare rows, as Pythia has."""
    folder = tmp_path_factory.mktemp("pretrained")
    tokenizer = byte_level(["the quick brown fox swaps positions two and three"] * 3)
    tokenizer.save(str(folder / "tokenizer.json"))
    spec = ModelSpec("gpt2", layers=2, width=32, heads=2)
    build(spec, tokenizer.get_vocab_size() + request.param, 256, seed=3).save_pretrained(folder)
    return folder


def test_a_pretrained_model_keeps_its_words(pretrained, tmp_path):
    sizes = dict.fromkeys(("layers", "width", "heads", "dropout"))
    recipe = toy(**(TEXT | sizes), pretrained=str(pretrained), steps=2)
    plan = setup.make_plan(recipe, World(0, 1, torch.device("cpu")))
    old = AutoModelForCausalLM.from_pretrained(pretrained).get_input_embeddings().weight
    model = setup.make_model(plan)
    new = model.get_input_embeddings().weight
    vocabulary = plan.task.vocabulary
    assert len(new) == max(len(old), vocabulary.size)
    assert torch.equal(new[: len(old)], old)
    assert (
        min(vocabulary.elements)
        >= Tokenizer.from_file(f"{pretrained}/tokenizer.json").get_vocab_size()
    )
    longest = max_length(recipe, plan.task)
    counted = parameter_count(model_spec(recipe), vocabulary.size, longest, keep_vocabulary=True)
    assert counted.total == sum(parameter.numel() for parameter in model.parameters())
    run = Run(tmp_path / "run")
    assert train(recipe, run, Recorder()).finished
    assert load_run(run, None, "cpu").task.vocabulary == vocabulary


def test_a_pretrained_model_under_another_tokenizer_gets_new_words(pretrained, tmp_path):
    byte_level(["swap rotate"]).save(str(tmp_path / "tokenizer.json"))
    sizes = dict.fromkeys(("layers", "width", "heads", "dropout"))
    recipe = toy(**(TEXT | sizes), pretrained=str(pretrained), tokenizer=str(tmp_path))
    plan = setup.make_plan(recipe, World(0, 1, torch.device("cpu")))
    assert len(setup.make_model(plan).get_input_embeddings().weight) == plan.task.vocabulary.size


def test_cost_counts_tokens_not_sentences():
    cost = estimate(toy(**TEXT))
    assert cost.stages[0].tokens_each == 1 + 4 * 8


@pytest.mark.parametrize("first", [{"objective": "parity"}, {"objective": "control"}])
def test_earlier_stages_are_written_as_text_too(first, tmp_path):
    recipe = staged(first | {"steps": 3}, {"objective": "state", "steps": 3}, **TEXT)
    assert train(recipe, Run(tmp_path / "run"), Recorder()).finished


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "speech"}, "form 'speech' is unknown; use one of tokens, text"),
        ({"paraphrases": 2}, "paraphrases 2 has no effect with form 'tokens'"),
        ({"tokenizer": "somewhere"}, "tokenizer somewhere has no effect with form 'tokens'"),
        ({"form": "text", "paraphrases": 9}, "paraphrases 9 is not available; use a number from 1"),
        ({"form": "text", "group": "Z6"}, "Z6 cannot be written as text"),
        (
            {"form": "text", "tokenizer": "/nowhere"},
            r"there is no folder '/nowhere'; give one with tokenizer\.json, or",
        ),
        (
            {"form": "text", "tokenizer": "nowhere"},
            r"no folder 'nowhere'.*, put tokenizer\.json of that model into a folder",
        ),
    ],
)
def test_nonsense_is_refused(changes, message):
    with pytest.raises(StatetraceError, match=message):
        setup.make_plan(toy(**changes), World(0, 1, torch.device("cpu")))


def test_an_auxiliary_loss_reads_parity_and_action_at_the_periods(tmp_path):
    stage = {"objective": "state", "auxiliary": "parity,action", "auxiliary_layer": 2}
    about = TEXT | {"length": 3, "sequences": 216, "model": "pythia", "width": 64, "heads": 4}
    about |= {"steps": 75, "batch": 64, "learning_rate": 3e-3, "warmup": 10, "evaluate_every": 75}
    run = Run(tmp_path / "run")
    train(staged(stage, **about), run, Recorder())
    last = run.metrics("auxiliary")[-1]["accuracy"]
    assert last["parity, action at layer 2"] > 0.6  # 1/12 by chance, 1/2 without the parity


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(StatetraceError, match=r"has no tokenizer\.json"):
        make_task(toy(**TEXT, tokenizer=str(tmp_path)))
