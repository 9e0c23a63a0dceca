"""Views and ablations as tables: against the arrays, single looks, and the attention lens."""

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.inspection import ablate, look
from statetrace.lenses.attention import attention, rank_heads
from statetrace.lenses.specs import AttentionSpec
from tests.inspection.cases import ACTIONS, SOURCE, labels, random_model, zoo

HEADS = [(4, 0), (4, 1), (4, 2), (4, 3)]


def test_a_view_as_a_table():
    view = look(zoo(), ACTIONS)
    frame = view.to_pandas()
    assert list(frame.columns) == [
        "layer", "position", "action", "state", "reader", "target", "label", "probability",
    ]  # fmt: skip
    assert len(frame) == 7 * 8 * (6 + 2 + 6) + 8 * 6
    cell = frame[(frame.layer == 4) & (frame.position == 2) & (frame.reader == "probe")]
    parity = cell[cell.target == "parity"].set_index("label").probability
    assert set(parity.index) == {"even", "odd"}
    np.testing.assert_allclose(parity.to_numpy(), view.probes["parity"][4, 2])
    assert set(cell.action) == {"231"}
    assert set(cell.state) == {view.labels[view.states[2]]}
    answer = frame[(frame.reader == "answer") & (frame.position == 7)]
    assert dict(zip(answer.label, answer.probability, strict=True)) == view.answer()
    assert set(answer.layer) == {6}


def test_attention_as_a_table():
    view = look(zoo(), ACTIONS)
    frame = view.attention_to_pandas()
    assert len(frame) == view.attention.size
    row = frame[(frame.layer == 4) & (frame["head"] == 2) & (frame.position == 5)]
    np.testing.assert_allclose(row.weight.to_numpy(), view.attention[3, 2, 5])
    assert row.key_position.tolist() == list(range(-1, 8))
    assert row.key_action.tolist() == ["<start>", *ACTIONS.split(",")]
    with pytest.raises(StatetraceError, match="no attention"):
        look(random_model("recurrent"), [0, 1]).attention_to_pandas()


def test_views_are_short_to_read():
    plain = look(zoo(), ACTIONS)
    changed = look(zoo(), ACTIONS, source=SOURCE, patches=[(4, 0, 5)], without=[(4, 1)])
    best = next(iter(plain.answer()))
    assert repr(plain).startswith(f"View('{ACTIONS}': answers '{best}' with p = ")
    assert "patch" not in repr(plain)
    assert repr(changed).endswith("1 patch, mean ablation of head 4.1)")
    assert len(repr(changed)) < 200
    assert changed._repr_html_().count("<td>") == 4 * 8


@pytest.mark.parametrize("instead", ["mean", "zero"])
def test_ablating_many_sequences_is_ablating_each(instead):
    session = zoo()
    sequences = [labels(session, 8, seed) for seed in range(12)]
    table = ablate(session.model, session.task, HEADS, sequences, instead, session.means)
    views = [look(session, row, without=HEADS, instead=instead) for row in sequences]
    correct = np.mean([view.answers.argmax(-1) == view.states for view in views], axis=0)
    np.testing.assert_allclose(table.ablated["state"], correct)
    plain = [look(session, row) for row in sequences]
    intact = np.mean([view.answers.argmax(-1) == view.states for view in plain], axis=0)
    np.testing.assert_allclose(table.intact["state"], intact)
    frame = table.to_pandas()
    assert list(frame.columns) == ["target", "position", "intact", "ablated"]
    assert set(frame.target) == {"state", "parity"}
    assert "heads 4.0, 4.1, 4.2, 4.3" in repr(table)
    assert "12 sequences" in repr(table)
    assert table._repr_html_().startswith("<table>")


def test_the_attention_lens_finds_the_same_accuracy():
    """Without its top heads; zeros do not depend on the sequences that means are taken over."""
    session = zoo()
    spec = AttentionSpec(
        examples=100, ablation_examples=100, relabelings=0, ablation_sizes=(4,), tree_examples=1
    )
    result = attention(session.model, session.task, spec)
    heads = rank_heads(result.arrays["scores"])[:4]
    drawn = session.task.draw(100, spec.seed).actions
    for method in ("zero", "mean"):
        table = ablate(
            session.model, session.task, [(site.layer, site.head) for site in heads], drawn, method
        )
        mean = {
            row["name"]: row["mean"]
            for row in result.rows(measure="ablation", heads="top 4", method=method, length=None)
        }
        tolerance = 1e-6 if method == "zero" else 0.05
        for target in ("state", "parity"):
            assert table.ablated[target].mean() == pytest.approx(mean[target], abs=tolerance)


REFUSED = {
    "no heads": (([],), "no heads"),
    "head": (([(4, 9)],), "4.9"),
    "layer": (([(9, 0)],), "9.0"),
    "label": ((HEADS, "999"), "'999'"),
    "instead": ((HEADS, ACTIONS, "noise"), "'noise'"),
    "too long": ((HEADS, ["213"] * 200), "length 200"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_bad_ablations_are_refused_in_one_sentence(case):
    arguments, message = REFUSED[case]
    with pytest.raises(StatetraceError, match=message) as caught:
        ablate(zoo().model, zoo().task, *arguments)
    assert "\n" not in str(caught.value)
