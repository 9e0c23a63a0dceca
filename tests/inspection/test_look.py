"""What the explorer shows, against other roads to the same numbers."""

import copy
import threading

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from statetrace.errors import StatetraceError
from statetrace.explorer import open_model
from statetrace.inspection import Patch, look, make_session
from statetrace.inspection.probes import targets_of
from statetrace.interventions.capture import capture, overwrite
from statetrace.interventions.grid import patch_grid
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.loading import LoadedModel
from statetrace.models.families.generic import GenericAnatomy
from statetrace.zoo import checkpoint
from tests.inspection.cases import ACTIONS, RANDOM, SOURCE, ZOO, labels, random_model, zoo
from tests.interventions.test_capture import hooks

KINDS = sorted(RANDOM)


def tokens_of(model, actions):
    group = model.task.group
    return model.task.encode(torch.tensor([[group.index(a) for a in actions.split(",")]]))


@pytest.fixture(scope="module")
def stock():
    """The same weights, read by transformers alone."""
    folder = checkpoint("s3-parity-associative")
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    return model.float().eval()


def test_answers_attention_and_unembedding_are_those_of_transformers(stock):
    view = look(zoo(), ACTIONS)
    tokens = torch.tensor([[6, *(zoo().task.group.index(a) for a in ACTIONS.split(","))]])
    with torch.no_grad():
        output = stock(tokens, output_attentions=True, output_hidden_states=True)
        layers = [stock.transformer.ln_f(h) for h in output.hidden_states[:-1]]
        layers.append(output.hidden_states[-1])  # transformers has normed it already
        lens = torch.stack([stock.lm_head(h)[0, 1:, :6].softmax(-1) for h in layers])
    expected = output.logits[0, 1:, :6].softmax(-1)
    np.testing.assert_allclose(view.answers, expected, atol=2e-5)
    np.testing.assert_allclose(view.unembedding, lens, atol=2e-5)
    maps = torch.stack(output.attentions)[:, 0, :, 1:]
    np.testing.assert_allclose(view.attention, maps, atol=2e-5)
    assert [view.labels[s] for s in view.states[:3]] == ["132", "231", "312"]


def test_probes_are_as_good_as_they_say_they_are():
    """On sequences they have not seen, each read by a look of its own."""
    model = zoo()
    right = {target.name: [] for target in targets_of(model.task)}
    for actions in model.task.sample(60, seed=77).actions.tolist():
        view = look(model, actions)
        for target in targets_of(model.task):
            read = view.probes[target.name].argmax(-1)
            right[target.name].append(read == target.map.numpy()[view.states])
    for name, found in right.items():
        np.testing.assert_allclose(
            np.mean(found, axis=(0, 2)), model.probes.accuracy[name], atol=0.06
        )


def test_the_model_knows_parity_early_and_the_state_late():
    known = zoo().probes.accuracy
    assert min(known["parity"][4:]) > 0.95
    assert max(known["state"][:6]) < 0.6
    assert known["state"][6] > 0.95


@pytest.mark.parametrize("kind", ["zoo", *KINDS])
def test_a_patch_of_everything_is_the_source(kind):
    model = zoo() if kind == "zoo" else random_model(kind)
    here, there = labels(model, 8), labels(model, 8, seed=1)
    plain, other = look(model, here), look(model, there)
    assert np.abs(plain.answers - other.answers).max() > 1e-3
    for layer in range(model.anatomy.layers + 1):
        patched = look(model, here, source=there, patches=[Patch(layer, 0, 7)])
        np.testing.assert_allclose(patched.answers, other.answers, atol=1e-5)
        np.testing.assert_allclose(
            patched.unembedding[layer:], other.unembedding[layer:], atol=1e-5
        )
        if layer:
            np.testing.assert_allclose(patched.unembedding[0], plain.unembedding[0], atol=1e-5)


@pytest.mark.parametrize("where", ["prefix", "window"])
@pytest.mark.parametrize("kind", ["zoo", "rotary", "sentences"])
def test_patches_are_those_of_the_engine(kind, where):
    model = zoo() if kind == "zoo" else random_model(kind)
    actions, source = ",".join(labels(model, 6)), ",".join(labels(model, 6, seed=1))
    task = model.task
    grids = patch_grid(
        model.model,
        tokens_of(model, source),
        tokens_of(model, actions),
        GridSpec(where),
        offset=task.vocabulary.offset,
        stride=task.vocabulary.stride,
    )
    elements = torch.tensor(task.vocabulary.elements)
    expected = grids.grids[0].values[:, :, 0, elements].softmax(-1)  # [L + 1, T, order]
    for layer, row in enumerate(expected):
        for t, cell in enumerate(row):
            patch = Patch(layer, 0 if where == "prefix" else t, t)
            view = look(model, actions, source=source, patches=[patch])
            np.testing.assert_allclose(view.answers[-1], cell, atol=1e-4)


def test_several_patches_and_heads_together_are_hooks_written_by_hand():
    model = zoo()
    patches = [Patch(2, 0, 2), Patch(2, 5, 5), Patch(4, 3, 4)]
    donor = capture(model.model, tokens_of(model, SOURCE), [Site("resid", 2), Site("resid", 4)])

    def put(site, rows):
        def edit(activation):
            changed = activation.clone()
            changed[:, rows] = donor[site][:, rows]
            return changed

        return edit

    edits = {
        Site("resid", 2): put(Site("resid", 2), [0, 1, 2, 3, 6]),
        Site("resid", 4): put(Site("resid", 4), [4, 5]),
        Site("head", 3, 1): torch.zeros_like,
        Site("head", 6, 0): torch.zeros_like,
    }
    with torch.no_grad(), overwrite(model.model, edits):
        logits = model.model(tokens_of(model, ACTIONS), use_cache=False).logits
        maps = GenericAnatomy(model.model).attention_weights(tokens_of(model, ACTIONS))
    view = look(
        model,
        ACTIONS,
        source=SOURCE,
        patches=patches,
        without=[(3, 1), (6, 0)],
        instead="zero",
    )
    np.testing.assert_allclose(view.answers, logits[0, 1:, :6].softmax(-1), atol=1e-5)
    np.testing.assert_allclose(view.attention, maps[:, 0, :, 1:], atol=1e-5)
    assert np.abs(view.attention - look(model, ACTIONS).attention).max() > 0.1


def test_a_head_without_weights_is_an_ablated_head():
    model = zoo()
    layer, head, width = 4, 2, model.anatomy.head_width
    cut = copy.deepcopy(model.model)
    with torch.no_grad():
        rows = slice(head * width, (head + 1) * width)
        cut.transformer.h[layer - 1].attn.c_proj.weight[rows] = 0  # Conv1D: [in, out]
        expected = cut(tokens_of(model, ACTIONS)).logits[0, 1:, :6].softmax(-1)
    view = look(model, ACTIONS, without=[(layer, head)], instead="zero")
    np.testing.assert_allclose(view.answers, expected, atol=1e-5)


def test_a_mean_head_gives_the_mean_of_its_outputs():
    model = zoo()
    site = Site("head", 4, 2)
    drawn = torch.from_numpy(model.task.draw(256, 1, model.longest).actions.astype("int64"))
    mean = capture(model.model, model.task.encode(drawn), [site])[site].mean(0)
    with (
        torch.no_grad(),
        overwrite(model.model, {site: lambda z: mean[: z.shape[1]].expand_as(z)}),
    ):
        logits = model.model(tokens_of(model, ACTIONS), use_cache=False).logits
    view = look(model, ACTIONS, without=[(4, 2)])
    np.testing.assert_allclose(view.answers, logits[0, 1:, :6].softmax(-1), atol=1e-5)
    zeroed = look(model, ACTIONS, without=[(4, 2)], instead="zero")
    assert np.abs(view.unembedding - zeroed.unembedding).max() > 1e-3


def test_nothing_changed_is_nothing_changed():
    model = zoo()
    plain = look(model, ACTIONS)
    for view in (
        look(model, ACTIONS, source=SOURCE),
        look(model, ACTIONS, without=[], instead="zero"),
        look(model, ACTIONS, source=ACTIONS, patches=[Patch(3, 0, 7), Patch(5, 2, 2)]),
    ):
        np.testing.assert_allclose(view.answers, plain.answers, atol=1e-6)
        np.testing.assert_allclose(view.attention, plain.attention, atol=1e-6)


def test_what_comes_before_a_patch_stays():
    model = zoo()
    plain = look(model, ACTIONS)
    view = look(model, ACTIONS, source=SOURCE, patches=[Patch(1, 4, 4)])
    np.testing.assert_allclose(view.answers[:4], plain.answers[:4], atol=1e-6)
    assert np.abs(view.unembedding[1:, 4] - plain.unembedding[1:, 4]).max() > 1e-3


def test_the_source_need_not_be_as_long_as_the_sequence():
    model = zoo()
    short = ",".join(SOURCE.split(",")[:3])
    patch = [Patch(4, 0, 2)]
    first = look(model, ACTIONS, source=short, patches=patch)
    other = look(model, ACTIONS, source=SOURCE, patches=patch)
    np.testing.assert_allclose(first.answers, other.answers, atol=1e-5)


def test_the_model_is_left_as_it_was():
    model = zoo()
    before = hooks(model.model)
    model.model.train()
    look(model, ACTIONS, source=SOURCE, patches=[Patch(2, 0, 1)], without=[(1, 1)])
    assert model.model.training
    model.model.eval()
    assert hooks(model.model) == before
    boom = torch.nn.Module.register_forward_hook
    handle = boom(model.anatomy.blocks[2], lambda *_: (_ for _ in ()).throw(RuntimeError("boom")))
    with pytest.raises(RuntimeError, match="boom"):
        look(model, ACTIONS, without=[(1, 1)])
    handle.remove()
    assert hooks(model.model) == before
    assert not model.lock.locked()


def test_threads_see_what_each_would_see_alone():
    model = zoo()
    asked = [
        {"actions": ACTIONS},
        {"actions": ACTIONS, "source": SOURCE, "patches": [Patch(4, 0, 5)]},
        {"actions": SOURCE, "without": [(4, 0), (4, 1), (4, 2), (4, 3)]},
        {"actions": SOURCE, "source": ACTIONS, "patches": [Patch(2, 1, 1)], "instead": "zero"},
    ]
    alone = [look(model, **request).answers for request in asked]
    assert len({a.tobytes() for a in alone}) == len(alone)
    wrong = []

    def ask(number):
        for _ in range(15):
            answers = look(model, **asked[number]).answers
            if np.abs(answers - alone[number]).max() > 1e-5:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(i % len(asked),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_same_call_gives_the_same_probes():
    model = zoo()
    again = make_session(
        LoadedModel(model.model, model.task, checkpoint("s3-parity-associative")), ZOO
    )
    assert torch.equal(again.probes.fitted.weights, model.probes.fitted.weights)


REFUSED = {
    "unknown element": ({"actions": "132,999"}, "'999'"),
    "no action": ({"actions": ""}, "0 actions"),
    "too long": ({"actions": ",".join(["132"] * 49)}, "49 actions.*1 to 48"),
    "source too long": ({"source": ",".join(["132"] * 49)}, "the source has 49 actions"),
    "element number": ({"actions": [0, 6]}, "number 6"),
    "negative element": ({"actions": [-1]}, "number -1"),
    "layer": ({"source": SOURCE, "patches": [Patch(7, 0, 0)]}, "no layer 7"),
    "negative layer": ({"source": SOURCE, "patches": [Patch(-1, 0, 0)]}, "no layer -1"),
    "past the end": ({"source": SOURCE, "patches": [Patch(1, 0, 8)]}, "action 8 cannot"),
    "backwards": ({"source": SOURCE, "patches": [Patch(1, 3, 2)]}, "from action 3 to 2"),
    "before the start": ({"source": SOURCE, "patches": [Patch(1, -2, 2)]}, "from action -2"),
    "no source": ({"patches": [Patch(1, 0, 0)]}, "needs a source"),
    "short source": ({"source": "132", "patches": [Patch(1, 0, 1)]}, "source ends with action 0"),
    "head": ({"without": [(1, 4)]}, "no head 1.4"),
    "head's layer": ({"without": [(0, 0)]}, "no head 0.0"),
    "instead": ({"without": [(1, 0)], "instead": "noise"}, "'noise'"),
    "patches": ({"source": SOURCE, "patches": [Patch(0, 0, i) for i in range(600)]}, "600 patches"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_makes_no_sense_is_refused_in_one_sentence(case):
    asked, message = REFUSED[case]
    with pytest.raises(StatetraceError, match=message) as caught:
        look(zoo(), **({"actions": ACTIONS} | asked))
    assert "\n" not in str(caught.value)


def test_without_attention_the_rest_works():
    model = random_model("recurrent")
    view = look(model, labels(model, 5))
    assert view.attention is None
    assert view.unembedding is not None
    assert set(view.probes) == {"state", "parity"}
    assert "'mamba' models have no attention" in model.no_attention
    with pytest.raises(StatetraceError, match=r"no head 1\.0: 'mamba' models have no attention"):
        look(model, labels(model, 5), without=[(1, 0)])


def test_sentences_are_columns():
    model = random_model("sentences")
    view = look(model, labels(model, 5))
    assert view.answers.shape == (5, 6)
    assert view.attention.shape == (2, 2, 5, 6)
    np.testing.assert_allclose(view.attention.sum(-1), 1, atol=1e-5)


def test_large_groups_are_not_probed_for_their_states():
    assert set(random_model("too many").probes.accuracy) == {"parity"}
    assert set(random_model("many").probes.accuracy) == {"state", "parity"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("zoo:no-such", {}, "'no-such'"),
        ("no/such/folder", {}, "there is no folder 'no/such/folder'"),
        (ZOO, {"step": 5}, "step 5"),
        (ZOO, {"device": "tpu"}, "tpu"),
    ],
)
def test_what_cannot_be_opened_says_why(name, options, message):
    with pytest.raises(StatetraceError, match=message):
        open_model(name, **options)
