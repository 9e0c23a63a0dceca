"""Parity-head scores against the definition written as loops, and on maps whose score is known."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.parity_heads import (
    contrast,
    head_scores,
    outside_kernel,
    relabelings,
    score_ceiling,
)
from statetrace.tasks.word_problem import word_problem


def literal_score(
    maps: np.ndarray, odd: np.ndarray, first: int, margin: float, z: float = 1.959963984540054
) -> float:
    """The definition of appendix F for one head and one example: maps [T, T], odd [T]."""
    length = len(odd)
    total = 0
    for t in range(first, length + 1):
        row = maps[t - 1]
        on_odd = [float(row[i]) for i in range(t) if odd[i]]
        on_even = [float(row[i]) for i in range(t) if not odd[i]]
        if len(on_odd) < 2 or not on_even:
            continue
        half_width = z * np.std(on_odd, ddof=1) / np.sqrt(len(on_odd))
        total += np.mean(on_odd) - margin * half_width > np.mean(on_even)
    return 100 * total / (length - first)


def random_maps(*shape: int, seed: int = 0, sharpness: float = 2.0) -> torch.Tensor:
    """Causal attention [..., T, T]; odd-looking columns are not preferred."""
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(*shape, shape[-1], generator=generator)
    causal = torch.ones(shape[-1], shape[-1], dtype=torch.bool).tril()
    return scores.masked_fill(~causal, -torch.inf).softmax(-1)


def attending(wanted: torch.Tensor) -> torch.Tensor:
    """Maps [1, 1, T, T] that spread their attention evenly over the wanted positions seen so far
    [T], or over all of them where there are none yet."""
    length = len(wanted)
    seen = torch.ones(length, length).tril()
    maps = seen * wanted
    maps = torch.where(maps.sum(-1, keepdim=True) > 0, maps, seen)
    return (maps / maps.sum(-1, keepdim=True))[None, None]


ODD = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1], dtype=torch.bool)


@pytest.mark.parametrize("margin", [0.0, 0.95, 1.0])
@pytest.mark.parametrize("first", [1, 2, 5, 11])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_scores_follow_the_definition(first, margin, share):
    maps = random_maps(6, 3, 12, seed=first)
    odd = torch.rand(6, 12, generator=torch.Generator().manual_seed(1)) < share
    maps = maps * (1 + odd[:, None, None, :])  # some heads should pass, some not
    scores = head_scores(maps, odd, first, margin)
    expected = [
        [literal_score(maps[b, h].numpy(), odd[b].numpy(), first, margin) for h in range(3)]
        for b in range(6)
    ]
    assert scores.tolist() == pytest.approx(np.array(expected))
    if share == 0.5:
        assert len(scores.unique()) > 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(ODD, score_ceiling(5, 12)), (~ODD, 0.0), (torch.ones(12), 0.0)],
    ids=["odd", "even", "uniform"],
)
def test_scores_of_known_heads(wanted, expected):
    assert head_scores(attending(wanted), ODD[None]).item() == pytest.approx(expected)


@pytest.mark.parametrize("length", range(6, 70, 7))
def test_equal_weights_are_a_tie_whatever_the_rounding(length):
    odd = torch.rand(50, length, generator=torch.Generator().manual_seed(length)) < 0.5
    maps = torch.zeros(50, 1, length, length)
    maps = maps.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf)
    assert head_scores(maps.softmax(-1), odd, margin=0.0).max() == 0


def test_the_factor_in_front_of_the_interval_decides_close_cases():
    odd = torch.tensor([[True, True, True, False, False, False]])
    on_odd = np.array([0.1, 0.2, 0.3])
    half_width = 1.96 * on_odd.std(ddof=1) / np.sqrt(3)
    even = 0.2 - 0.97 * half_width  # between 0.95 and 1 half-widths below the mean
    row = torch.tensor([*on_odd, even, even, even])
    maps = row.expand(1, 1, 6, 6).tril()
    assert head_scores(maps, odd, first=5, margin=0.95).item() == 200
    assert head_scores(maps, odd, first=5, margin=1.0).item() == 0
    assert head_scores(maps, odd, first=5, margin=1.0, confidence=0.9).item() == 200


@pytest.mark.parametrize("odd", [[0] * 8, [1] * 8, [0, 0, 0, 0, 0, 0, 0, 1]], ids=str)
def test_prefixes_that_cannot_be_compared_count_zero(odd):
    odd = torch.tensor(odd, dtype=torch.bool)
    assert head_scores(attending(odd.float()), odd[None]).item() == 0


def test_what_lies_after_the_prefix_is_not_seen():
    """Future columns hold zeros in any causal map; here they hold nonsense."""
    maps = random_maps(4, 2, 12)
    odd = ODD.expand(4, 12)
    spoiled = maps + 7 * torch.ones(12, 12).triu(1)
    assert torch.equal(head_scores(maps, odd), head_scores(spoiled, odd))


@pytest.mark.parametrize(("last", "ceiling"), [(80, 101.33), (16, 109.09), (6, 200.0)])
def test_the_ceiling_is_that_of_the_definition(last, ceiling):
    assert score_ceiling(5, last) == pytest.approx(ceiling, abs=0.01)


@pytest.mark.parametrize(
    ("name", "actions", "asked", "chosen", "note"),
    [
        ("S3", "all", "parity", "parity", None),
        ("S4", "all", "S3", "S3", None),
        ("A4", "all", "parity", "Z3", "A4 has no parity"),
        ("A5", "all", "parity", None, "no other proper quotient"),
        ("S3", "132,213,321", "parity", None, "every action is outside"),
    ],
)
def test_the_quotient_that_splits_the_actions(name, actions, asked, chosen, note):
    quotient, reason = contrast(word_problem(name, 8, actions), asked)
    assert (quotient and quotient.name) == chosen
    assert (reason is None) if note is None else (note in reason)


def test_an_unknown_quotient_is_refused():
    with pytest.raises(StatetraceError, match="no quotient 'Z7'"):
        contrast(word_problem("S3", 8), "Z7")


def test_odd_means_outside_the_kernel():
    group = word_problem("S4", 8).group
    assert outside_kernel(group.quotient("parity")).tolist() == (group.parity == 1).tolist()
    four = outside_kernel(group.quotient("S3"))
    assert four.sum() == 20
    assert not four[group.identity]


@pytest.mark.parametrize(
    ("odd", "actions", "asked", "number"),
    [
        ([0, 1, 1, 0, 0, 1], None, 5, 5),
        ([0, 1, 1, 0, 0, 1], None, 100, 19),
        ([0, 1, 1, 0, 0, 1], (0, 1), 5, 1),
        ([0, 1, 1, 0, 0, 1], None, 0, 0),
    ],
)
def test_relabelings_are_other_sets_of_as_many_actions(odd, actions, asked, number):
    odd = np.array(odd, dtype=bool)
    others = relabelings(odd, actions, asked, np.random.default_rng(0))
    among = np.arange(6) if actions is None else np.array(actions)
    elsewhere = np.setdiff1d(np.arange(6), among)
    assert others.shape == (number, 6)
    assert len({row.tobytes() for row in [odd, *others]}) == number + 1
    assert (others[:, among].sum(1) == odd[among].sum()).all()
    assert (others[:, elsewhere] == odd[elsewhere]).all()
