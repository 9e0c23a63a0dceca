"""The programs compute products, layer by layer as they say, and look at nothing later."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.mechanisms.algorithms import ALGORITHMS, QuotientAssociative, algorithm
from statetrace.tasks.sequences import scan
from tests.groups.cases import named
from tests.mechanisms.cases import NAMES, NO_PROGRAMS, PROGRAMS, program

seeds = st.integers(0, 2**32 - 1)
SMALL = [
    *((name, "S3") for name in ALGORITHMS),
    *(("parity-associative", group) for group in ("S4", "Z6", "Z2")),
    *(("parallel", group) for group in ("S4", "Q8")),
    ("associative", "A4"),
    *(("composed-quotient", group) for group in ("S3", "A4", "D4")),
    *((name, "S3") for name in ("strided", "chunked")),
]


def draw(group: str, n: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, named(group).order, size=(n, length))


@settings(max_examples=150)
@given(st.sampled_from(PROGRAMS), st.integers(1, 100), seeds)
def test_the_last_layer_is_the_product(case, length, seed):
    name, group = case
    actions = draw(group, 4, length, seed)
    this = program(name, group)
    answers = this.read(this.run(actions)[-1])
    assert np.array_equal(answers, scan(named(group), actions))
    assert answers[0, -1] == named(group).product(actions[0].tolist())


@pytest.mark.parametrize("case", PROGRAMS, ids="-".join)
def test_every_group_at_every_token(case):
    name, group = case
    actions = draw(group, 3, 21)
    this = program(name, group)
    assert np.array_equal(this.read(this.run(actions)[-1]), scan(named(group), actions))


@pytest.mark.parametrize("case", SMALL, ids="-".join)
def test_reach_is_exact_at_every_layer(case):
    """Within reach every answer is right, and beyond it some are wrong."""
    this = program(*case).up_to(12)
    actions = draw(case[1], 200, 12)
    right = (this.read(this.run(actions, 12)) == scan(this.group, actions)).all(1)  # [rows, T]
    expected = [[this.reaches(row, n) for n in range(1, 13)] for row in range(13)]
    assert np.array_equal(right, expected)
    for n in range(1, 13):
        depth = this.depth(n)
        assert right[depth, n - 1]
        assert depth == 0 or not right[depth - 1, n - 1]


@pytest.mark.parametrize(
    ("name", "group", "depths"),
    [
        ("sequential", "S3", {1: 0, 2: 1, 32: 31}),
        ("parallel", "S3", {1: 0, 2: 2, 32: 2}),
        ("parallel", "S4", {2: 3, 100: 3}),
        ("parallel", "Z12", {2: 1, 100: 1}),
        ("associative", "S5", {1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 32: 5, 33: 6, 100: 7}),
        ("parity-associative", "S5", {1: 0, 2: 2, 3: 3, 4: 3, 32: 6, 100: 8}),
        ("parity-associative", "Z2", {2: 1, 100: 1}),
        ("composed-quotient", "S4", {1: 0, 2: 2, 3: 4, 4: 4, 32: 10, 33: 12}),
        ("strided", "S5", {1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 12: 4, 32: 9, 33: 10}),
        ("chunked", "S5", {1: 0, 2: 1, 4: 3, 5: 4, 8: 4, 12: 5, 32: 10, 33: 11}),
    ],
)
def test_depths(name, group, depths):
    assert {n: program(name, group).depth(n) for n in depths} == depths


@pytest.mark.parametrize("case", SMALL, ids="-".join)
def test_a_step_is_pure_causal_and_idle_when_done(case):
    this = program(*case)
    table = this.run(draw(case[1], 20, 9), 14)
    assert np.array_equal(table[-1], table[this.depth(9)])
    rng = np.random.default_rng(1)
    for layer in range(1, 14):
        h = table[layer - 1]
        h.setflags(write=False)  # a step that wrote to its input would raise
        for cut in (1, 4, 8):
            other = h.copy()
            other[:, cut:] = rng.integers(0, this.group.order, size=other[:, cut:].shape)
            assert np.array_equal(this.step(layer, other)[:, :cut], table[layer][:, :cut])


def test_the_sequential_table_is_the_papers():
    actions = draw("S5", 10, 7)
    table, states = program("sequential", "S5").run(actions, 9), scan(named("S5"), actions)
    for t in range(7):
        for layer in range(10):
            expected = states if layer >= t else actions
            assert np.array_equal(table[layer, :, t, 0], expected[:, t])


def test_the_associative_table_holds_the_last_two_to_the_l_actions():
    actions = draw("S5", 5, 13)
    table = program("associative", "S5").run(actions)
    for layer in range(len(table)):
        for t in range(13):
            window = actions[:, max(0, t - 2**layer + 1) : t + 1]
            assert table[layer, :, t, 0].tolist() == [named("S5").product(row) for row in window]


@pytest.mark.parametrize("group", ["S3", "S4", "Z6", "S3xZ5"])
def test_parity_is_known_after_layer_one_and_the_rest_is_even(group):
    actions = draw(group, 50, 10)
    of = named(group)
    rest, parity = np.moveaxis(program("parity-associative", group).run(actions)[1], -1, 0)
    assert np.array_equal(of.parity[parity], of.parity[scan(of, actions)])
    assert len(np.unique(parity)) == 2
    assert not of.parity[rest].any()


@pytest.mark.parametrize("group", ["S3", "S4", "A4xZ5", "Q8"])
def test_the_parallel_program_goes_down_the_derived_series(group):
    h = program("parallel", group).run(draw(group, 50, 10))
    series = named(group).derived_series()
    assert len(h) == len(series)
    for row, subgroup in zip(h, series, strict=True):
        assert set(row[..., 0].ravel().tolist()) <= set(subgroup)


@pytest.mark.parametrize("group", ["S4", "A4", "D6", "Q8", "Z12", "A4xZ5", "A5xZ2"])
def test_any_solvable_quotient_may_be_counted_first(group):
    of = named(group)
    actions = draw(group, 20, 11)
    tried = 0
    for quotient in of.quotients():
        if quotient.image.is_solvable():
            this = algorithm("parity-associative", of, quotient.name)
            table = this.run(actions)
            assert np.array_equal(this.read(table[-1]), scan(of, actions))
            counted = table[this.stages]
            counted[..., 0] = of.identity  # what is left after counting says nothing of the image
            image = quotient.map[this.read(counted)]
            assert np.array_equal(image, quotient.map[scan(of, actions)])
            tried += 1
    assert tried


@pytest.mark.parametrize(("group", "quotient"), [("S3", "parity"), ("S4", "S3"), ("A4", "Z3")])
def test_the_quotient_is_composed_first_and_the_rest_lies_in_its_kernel(group, quotient):
    of = named(group)
    actions = draw(group, 50, 11)
    this = algorithm("composed-quotient", of, quotient)
    table, image = this.run(actions), of.quotient(quotient)
    states = image.map[scan(of, actions)]
    for row in range(5):
        window = image.map[table[row, ..., 1 if row == 4 else 2]]
        right = (window == states).all(0)  # up to the last 2^row actions
        assert np.array_equal(right, np.arange(1, 12) <= 2**row)
    assert np.isin(table[4:, ..., 0], image.kernel).all()
    assert this.depth(11) == 8


@pytest.mark.parametrize("stride", [1, 2, 8, 16])
def test_strided_folds_lie_between_the_sequential_and_the_associative_one(stride):
    actions = draw("S4", 5, 16)
    this = algorithm("strided", named("S4"), stride=stride)
    assert this.depth(16) == stride.bit_length() - 1 + 16 // stride - 1
    others = {1: "sequential", 8: "associative", 16: "associative"}
    if stride in others:
        assert np.array_equal(this.run(actions), program(others[stride], "S4").run(actions))


@pytest.mark.parametrize("name", NAMES)
def test_the_identity_need_not_be_the_first_element(name):
    table = 5 - named("S3").table[::-1, ::-1]  # element i is called 5 - i
    of = Group("S3 backwards", "moves", tuple("fedcba"), table, named("S3").parity[::-1].copy())
    actions = draw("S3", 20, 9)
    assert of.identity == 5
    this = algorithm(name, of)
    assert np.array_equal(this.read(this.run(actions)[-1]), scan(of, actions))


@pytest.mark.parametrize("case", NO_PROGRAMS, ids="-".join)
def test_what_does_not_exist_says_why(case):
    name, group = case
    with pytest.raises(StatetraceError, match=group) as error:
        program(name, group)
    reasons = {"parallel": "derived series", "composed-quotient": "no quotient"}
    assert reasons.get(name, "no parity") in str(error.value)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: algorithm("magic", named("S3")), "'magic'"),
        (lambda: algorithm("parallel", named("S5")), "perfect subgroup of order 60"),
        (lambda: algorithm("parity-associative", named("A4")), r"\(Z3\)"),
        (lambda: algorithm("parity-associative", named("A5")), "use associative"),
        (lambda: algorithm("associative", named("S3"), "parity"), "'parity'"),
        (lambda: algorithm("parity-associative", named("S4"), "Z7"), "'Z7'"),
        (lambda: algorithm("composed-quotient", named("S4"), "Z7"), "'Z7'"),
        (lambda: algorithm("strided", named("S3"), stride=3).depth(8), "stride 3.*power of two"),
        (lambda: algorithm("chunked", named("S3"), stride=0), "stride 0"),
        (lambda: QuotientAssociative.of(named("A5xZ2"), "A5"), "'A5'.*order 60"),
        (lambda: program("associative", "S3").run(draw("S3", 1, 3), -1), "-1 layers"),
        (lambda: program("associative", "S3").run(np.zeros(3, int)), r"shape \(3,\)"),
        (lambda: program("associative", "S3").run(np.full((1, 2), 6)), "to 6"),
    ],
)
def test_bad_input_is_one_sentence_that_quotes_it(call, complaint):
    with pytest.raises(StatetraceError, match=complaint) as error:
        call()
    assert "\n" not in str(error.value)
