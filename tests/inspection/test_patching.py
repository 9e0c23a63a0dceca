"""Patches on the caller's own pairs, against the lens, the hooks and single looks."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.inspection import look, patch
from statetrace.interventions.grid import patch_grid
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.patched_answers import nld
from statetrace.lenses.patching import patching
from statetrace.lenses.specs import PatchingSpec
from tests.inspection.cases import ACTIONS, SOURCE, random_model, zoo

GRIDS = [
    "prefix-substitution-resid",
    "suffix-deletion-resid",
    "window3-substitution-resid",
    "window-deletion-mlp_out",
    "prefix-substitution-head",
    "context-substitution-attn_out",
]


@pytest.fixture(scope="module")
def lens():
    grids = tuple(map(GridSpec.named, GRIDS))
    session = zoo()
    return patching(session.model, session.task, PatchingSpec(pairs=12, grids=grids, length=10))


@pytest.mark.parametrize("name", GRIDS)
def test_the_lens_gives_the_same_numbers_on_its_pairs(lens, name):
    clean, corrupted = lens.arrays["clean_actions"], lens.arrays["corrupted_actions"]
    table = patch(zoo().model, zoo().task, clean, corrupted, name)
    name = GridSpec.named(name).name
    np.testing.assert_allclose(
        np.moveaxis(table.nld, 0, 2), lens.arrays[f"{name}.nld"], atol=1e-4, rtol=1e-4
    )
    np.testing.assert_allclose(
        np.moveaxis(table.clean_probability, 0, 2), lens.arrays[f"{name}.probability"], atol=1e-5
    )
    np.testing.assert_array_equal(table.clean_answer, lens.arrays["clean_answer"])
    means = [
        row["mean"]
        for row in lens.rows()
        if row["metric"] == "nld" and row["split"] == "all" and f"{row['where']}" in name
        if row["what"] in name and row["kind"] in name
    ]
    np.testing.assert_allclose(table.mean().ravel(), means, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sites", ["prefix", "window", "prefix-deletion"])
@pytest.mark.parametrize("kind", ["gpt2", "rotary", "recurrent", "sentences"])
def test_hooks_give_the_same_numbers(kind, sites):
    session = random_model(kind)
    task, order = session.task, session.task.group.order
    rng = np.random.default_rng(0)
    clean, corrupted = rng.integers(order, size=(2, 20, 6))
    table = patch(session.model, task, clean, corrupted, sites)
    grids = patch_grid(
        session.model,
        *(task.encode(actions) for actions in (clean, corrupted)),
        table.spec,
        offset=task.vocabulary.offset,
        stride=task.vocabulary.stride,
        method="hooks",
    )
    ids = torch.tensor(task.vocabulary.elements)
    cells = grids.grids[0].values.double()  # [R, C, n, V]
    runs = [run.double() for run in (grids.clean, grids.corrupted)]
    best = [run[:, ids].argmax(-1) for run in runs]
    pairs = torch.arange(20)

    def log_p(logits, run):  # of what this run answers
        return logits.log_softmax(-1)[..., pairs, ids[best[run]]].numpy()

    def ld(logits):
        return log_p(logits, 0) - log_p(logits, 1)

    np.testing.assert_allclose(
        np.moveaxis(table.corrupted_probability, 0, 2), np.exp(log_p(cells, 1)), atol=1e-4
    )
    differ = (best[0] != best[1]).numpy()
    assert differ.any() or kind == "sentences"
    assert np.isnan(table.nld[~differ]).all()
    with np.errstate(invalid="ignore"):
        expected = nld(table.spec.what, ld(cells), ld(runs[0]), ld(runs[1]))
    np.testing.assert_allclose(
        table.nld[differ], np.moveaxis(expected, 2, 0)[differ], atol=2e-3, rtol=2e-3
    )
    answers = np.moveaxis(cells[..., ids].argmax(-1).numpy(), 2, 0)
    assert (table.answer == answers).mean() > 0.99  # but for ties


def test_a_cell_is_a_look():
    session = zoo()
    table = patch(session.model, session.task, SOURCE, ACTIONS)
    assert table.nld.shape == (1, 7, 8)
    for layer, position in ((0, 7), (4, 2), (6, 7)):
        view = look(session, ACTIONS, source=SOURCE, patches=[(layer, 0, position)])
        assert table.answer[0, layer, position] == view.answers[-1].argmax()
    np.testing.assert_allclose(table.nld[0, 4, 7], 1, atol=1e-4)


FORMS = [
    ("213,132", "132,132"),
    (["213", "132"], ["132", "132"]),
    ([2, 1], [1, 1]),
    (np.array([2, 1]), np.array([1, 1])),
    (["213,132"], ["132,132"]),
    ([["213", "132"]], [["132", "132"]]),
    (np.array([[2, 1]]), np.array([[1, 1]], dtype=np.uint8)),
]


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_sequences_can_be_written_in_several_ways(form):
    session = random_model("gpt2")
    table = patch(session.model, session.task, *FORMS[form])
    assert (table.clean.tolist(), table.corrupted.tolist()) == ([[2, 1]], [[1, 1]])
    first = patch(session.model, session.task, *FORMS[0])
    np.testing.assert_allclose(table.clean_probability, first.clean_probability)


def test_the_table_is_tidy():
    session = zoo()
    clean, corrupted = [ACTIONS, ACTIONS], [SOURCE, ACTIONS]
    table = patch(session.model, session.task, clean, corrupted, [Site("head", 4, 2)])
    frame = table.to_pandas()
    assert len(frame) == 2 * 1 * 8
    assert list(frame.columns) == [
        "pair", "kind", "layer", "head", "position",
        "nld", "clean_probability", "corrupted_probability", "answer",
    ]  # fmt: skip
    row = frame[(frame.pair == 0) & (frame.position == 3)].iloc[0]
    assert (row["kind"], row["layer"], row["head"]) == ("head", 4, 2)
    assert row["nld"] == table.nld[0, 0, 3]
    assert row["answer"] == table.labels[table.answer[0, 0, 3]]
    assert frame[frame.pair == 1].nld.isna().all()
    assert "1 of 2 pairs" in table.notes[0]
    np.testing.assert_allclose(table.mean(), table.nld[0])
    assert np.isnan(patch(session.model, session.task, ACTIONS, ACTIONS).mean()).all()
    assert len(repr(table)) < 300
    assert "2 pairs" in repr(table)
    html = table._repr_html_()
    assert [html.index(f"<th>{site}") for site in table.sites] == sorted(
        html.index(f"<th>{site}") for site in table.sites
    )


REFUSED = {
    "label": (("213,999", "213,132"), "'999'"),
    "index": ((np.array([[0, 6]]), "213,132"), "number 6"),
    "lengths": (("213,132", "213"), "1 x 2 actions and corrupted 1 x 1"),
    "pairs": ((["213,132", "132,213"], "213,132"), "2 x 2 .* 1 x 2"),
    "ragged": ((["213,132", "132,213,213"], "213,132"), "sequences of 2 and 3 actions"),
    "none": (([], []), "clean has sequences of no actions"),
    "empty": (("", ""), "0 actions"),
    "too long": (([["213"] * 200] * 2, [["213"] * 200] * 2), "length 200"),
    "sites": (("213,132", "213,132", "diagonal"), "'diagonal'"),
    "grid": (("213,132", "213,132", "prefix-shuffle-head"), "'shuffle'"),
    "head": (("213,132", "213,132", [Site("head", 4, 9)]), "4.9"),
    "number": ((7, "213,132"), "7"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_bad_input_is_refused_in_one_sentence(case):
    arguments, message = REFUSED[case]
    with pytest.raises(StatetraceError, match=message) as caught:
        patch(zoo().model, zoo().task, *arguments)
    assert "\n" not in str(caught.value)
    with pytest.raises(StatetraceError, match="'loss'"):
        patch(zoo().model, zoo().task, ACTIONS, SOURCE).mean("loss")
