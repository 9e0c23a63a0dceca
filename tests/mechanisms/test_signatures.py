"""Predictions against brute force: patching by softmax and cell by cell, probes by enumeration."""

import itertools

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.mechanisms.algorithms import ALGORITHMS, algorithm
from statetrace.mechanisms.signatures import _overwritten, corrupted_pairs, signature
from statetrace.tasks.sequences import scan
from statetrace.tasks.word_problem import word_problem
from tests.mechanisms.cases import program

SHORT = [*((name, "S3", 5) for name in ALGORITHMS), ("parallel", "S4", 4), ("parallel", "A4", 4),
         ("parity-associative", "D4", 6), ("associative", "Z6", 5), ("composed-quotient", "S3", 5),
         ("composed-quotient", "D4", 4), ("strided", "S3", 5), ("chunked", "S3", 6)]  # fmt: skip
WHERE = ("prefix", "suffix", "window1")


@pytest.fixture(scope="module")
def paper():
    """Figure 1's four rows."""
    return {name: signature(name, "S3", 32) for name in ALGORITHMS}


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("case", SHORT, ids=str)
def test_patching_is_the_papers_nld_of_a_model_that_adds_its_registers_up(case, extra):
    """Cell by cell, pair by pair, with real log-probabilities."""
    name, of, length = case
    this = program(name, of).up_to(length)
    layers = this.depth(length) + extra
    found = signature(name, of, length, layers=layers, pairs=7, seed=3)
    clean, corrupted = corrupted_pairs(group(of), length, 7, 3)
    # A sequence of one action leads to that state, so it shows how states are represented.
    codes = this.run(np.arange(this.group.order)[:, None], layers)[-1, :, 0]  # [order, R]

    def log_p(h):  # [R] -> [order]
        logits = 2.5 * (codes == h).sum(-1)
        return logits - np.log(np.exp(logits).sum())

    for where in WHERE:
        windows = GridSpec.named(f"{where}-substitution").windows(length, 0)
        for row, (column, (start, stop)) in itertools.product(
            range(layers + 1), enumerate(windows)
        ):
            scores = []
            for good, bad in zip(clean, corrupted, strict=True):
                tables = [this.run(actions[None], layers) for actions in (good, bad)]
                ends = [log_p(h[-1, 0, -1]) for h in tables]
                says, says_not = (int(end.argmax()) for end in ends)
                h = tables[1][row].copy()
                h[:, start:stop] = tables[0][row][:, start:stop]
                for layer in range(row + 1, layers + 1):
                    h = this.step(layer, h)
                patched, *unpatched = (
                    log_p_[says] - log_p_[says_not] for log_p_ in (log_p(h[0, -1]), *ends)
                )
                scores.append((patched - unpatched[1]) / (unpatched[0] - unpatched[1]))
            assert found.patching[where, "all"][row, column] == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_probes_are_the_best_readers_by_enumeration(case):
    """Over all sequences: the majority of the state, given the registers of the last token."""
    name, of, length = case
    length = min(length, 4 if group(of).order < 10 else 3)
    this = program(name, of).up_to(length)
    layers = this.depth(length)
    found = signature(this, of, length)
    actions = np.array(list(itertools.product(range(this.group.order), repeat=length)))
    h, states = this.run(actions, layers).astype(int), scan(this.group, actions)
    targets = {"state": states}
    if this.group.parity is not None:
        targets["parity linear"] = this.group.parity[states].astype(int)
    assert set(found.probes()) == set(targets) | ({"parity hidden"} if len(targets) > 1 else set())
    for target, label in targets.items():
        for row, t in itertools.product(range(layers + 1), range(length)):
            _, code = np.unique(h[row, :, t], axis=0, return_inverse=True)
            counts = np.zeros((code.max() + 1, this.group.order))
            np.add.at(counts, (code.ravel(), label[:, t]), 1)
            best = counts.max(1).sum() / len(actions)
            assert found.probes()[target][row, t] == pytest.approx(best)


POWERS = [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("name", "split", "actions"),
    [
        ("sequential", "all", list(range(1, 33))),
        ("associative", "all", POWERS),
        ("associative", "opposite", POWERS),
        ("parallel", "same", [1, 1, 32]),
        ("parallel", "opposite", [1, 32, 32]),
        ("parity-associative", "same", [1, *POWERS]),
        ("parity-associative", "opposite", [1] + 6 * [32]),
        ("parity-associative", "all", [1] + 6 * [32]),
    ],
)
def test_actions_to_restore_at_each_layer(paper, name, split, actions):
    assert paper[name].restores(split) == actions


@pytest.mark.parametrize(
    ("name", "split", "actions"),
    [
        ("composed-quotient", "same", [1, 1, 1, 1, *POWERS[:5]]),
        ("composed-quotient", "opposite", [*POWERS[:4], *[16] * 5]),
        ("strided", "all", [1, 2, 4, 8, 12, 16]),
        ("chunked", "opposite", [1, 2, 3, 4, 8, 12, 16]),
    ],
)
def test_fronts_of_the_other_algorithms(name, split, actions):
    assert signature(name, "S3", 16).restores(split) == actions


def test_the_light_region_of_the_parity_associative_algorithm(paper):
    """Where the associative algorithm is restored, half of the answer is; elsewhere nothing."""
    ours, scan_only = (
        paper[name].patching["prefix", "all"] for name in ("parity-associative", "associative")
    )
    inside = ours[1:, :-1]
    restored = scan_only[:, :-1] == 1
    assert (inside[~restored] == 0).all()
    assert 0.4 < inside[restored].min() <= inside[restored].max() < 0.65
    assert (ours[:, -1] == 1).all()


@pytest.mark.parametrize(
    ("name", "state", "linear", "hidden"),
    [  # the first row at which the last token of 32 actions tells
        ("sequential", 31, 31, None),
        ("parallel", 2, 1, 1),
        ("associative", 5, 5, None),
        ("parity-associative", 6, 1, 1),
    ],
)
def test_where_state_and_parity_become_readable(paper, name, state, linear, hidden):
    first = {
        target: next((row for row, value in enumerate(grid[:, -1]) if value == 1), None)
        for target, grid in paper[name].probes().items()
    }
    assert first == {"state": state, "parity linear": linear, "parity hidden": hidden}


@pytest.mark.parametrize(
    ("name", "of", "shown"),
    [
        ("associative", "Z2", True),  # a state with two values is its parity
        ("parallel", "Z6", False),  # counted, but as one of six
        ("parity-associative", "Z6", True),
        ("parallel", "D4", False),  # counts a pair of bits at once
    ],
)
def test_hidden_parity_shows_in_registers_of_its_own_only(name, of, shown):
    found = signature(name, of, 4)
    assert (found.parity_probe["hidden"][-1] == (1 if shown else 0.5)).all()
    assert (found.parity_probe["linear"][-1] == 1).all()


@pytest.mark.parametrize("length", [2, 5])
def test_columns_are_those_of_the_lens(length):
    for where, masks in _overwritten(length).items():
        windows = GridSpec.named(f"{where}-substitution").windows(length, 0)
        tokens = [set(np.flatnonzero(mask).tolist()) for mask in masks]
        assert tokens == [set(range(*window)) for window in windows]


def test_pairs_are_those_of_the_lens():
    theirs = draw_pairs(word_problem("S4", 9), 50, 9, 0, 5)
    clean, corrupted = corrupted_pairs(group("S4"), 9, 50, 5)
    assert np.array_equal(clean, theirs.clean)
    assert np.array_equal(corrupted, theirs.corrupted)


def test_groups_without_parity_have_no_parity_numbers():
    found = signature("associative", "A4", 6)
    assert set(found.patching) == {(where, "all") for where in WHERE}
    assert found.parity_probe is None


def test_too_few_layers_leave_no_answer_to_restore():
    found = signature("associative", "S3", 9, layers=3)
    assert found.rows == 4
    assert found.pairs == {"all": 0, "same": 0, "opposite": 0}
    assert np.isnan(found.patching["prefix", "all"]).all()
    assert found.restores() == [None] * 4
    assert (found.state_probe[-1] == [1] * 8 + [1 / 6]).all()


def test_spare_layers_propagate():
    found = signature("associative", "S3", 8, layers=6)
    assert found.restores() == [1, 2, 4, 8, 8, 8, 8]


def test_the_tidy_table_has_every_number_once(paper):
    found = paper["parity-associative"]
    table = found.table()
    rows = list(zip(*table.values(), strict=True))
    assert len(rows) == 7 * (3 * (32 + 31 + 32) + 3 * 32)
    grids = {("nld", *key, None): grid for key, grid in found.patching.items()}
    grids |= {("accuracy", None, None, key): grid for key, grid in found.probes().items()}
    for name, of, length, *key, layer, position, value in rows:
        assert (name, of, length) == ("parity-associative", "S3", 32)
        assert grids[tuple(key)][layer, position] == value


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"length": 1}, "length 1"),
        ({"pairs": 0}, "pairs 0"),
        ({"layers": -2}, "-2 layers"),
        ({"algorithm": "sequential", "length": 700}, "699 layers"),
        ({"group": "S1"}, "S1"),
        ({"group": "Q9"}, "Q9"),
        ({"algorithm": "magic"}, "magic"),
        ({"algorithm": algorithm("associative", group("S4"))}, "S4"),
    ],
    ids=str,
)
def test_bad_input_is_one_sentence_that_quotes_it(words, complaint):
    with pytest.raises(StatetraceError, match=complaint):
        signature(**{"algorithm": "associative", "group": "S3", "length": 4} | words)
