"""The batched fit against scikit-learn, and against itself one problem at a time."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from statetrace.errors import StatetraceError
from statetrace.lenses.parts import logistic, probes

Problem = tuple[torch.Tensor, torch.Tensor, int]  # features [N, D] in float64, labels [N], classes


def linear(n: int, width: int, classes: int, strength: float, seed: int) -> Problem:
    """Gaussian features, labels drawn from a linear model of the given strength."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator, dtype=torch.float64)
    logits = strength * x @ torch.randn(width, classes, generator=generator, dtype=torch.float64)
    y = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    return x, y, classes


def separable(classes: int) -> Problem:
    x, y, _ = linear(600, 8, classes, 0.0, seed=1)
    x[:, :classes] += 12.0 * torch.nn.functional.one_hot(y, classes)
    return x, y, classes


def correlated() -> Problem:
    """Variances over six orders of magnitude, turned, then standardised as the lens does."""
    x, y, classes = linear(800, 20, 4, 0.7, seed=2)
    generator = torch.Generator().manual_seed(3)
    turn = torch.linalg.qr(torch.randn(20, 20, generator=generator, dtype=torch.float64))[0]
    x = (x * torch.logspace(0, -3, 20, dtype=torch.float64)) @ turn
    probes.standardise(x[None])
    return x, y, classes


def rank_deficient() -> Problem:
    x, y, classes = linear(500, 5, 3, 1.0, seed=4)
    return torch.cat([x, x[:, :3] - x[:, 1:4], torch.zeros(500, 2).double()], dim=1), y, classes


def off_centre() -> Problem:
    x, y, classes = linear(500, 6, 3, 1.0, seed=5)
    return x * 0.3 + 7.0, y, classes


def rare_class() -> Problem:
    x, y, classes = linear(700, 6, 5, 0.5, seed=6)
    return x, torch.where((y == 3) & (torch.arange(700) > 40), 0, y), classes


CASES: dict[str, Callable[[], Problem]] = {
    "random labels": lambda: linear(600, 10, 6, 0.0, seed=7),
    "six classes": lambda: linear(600, 10, 6, 1.0, seed=8),
    "two classes": lambda: linear(600, 10, 2, 1.0, seed=9),
    "many classes": lambda: linear(900, 12, 20, 1.0, seed=10),
    "separable": lambda: separable(6),
    "separable, two classes": lambda: separable(2),
    "more features than rows": lambda: linear(60, 90, 3, 1.0, seed=11),
    "correlated": correlated,
    "rank deficient": rank_deficient,
    "off centre": off_centre,
    "rare class": rare_class,
}


def peer(x: torch.Tensor, y: torch.Tensor, C: float) -> LogisticRegression:
    return LogisticRegression(C=C, tol=1e-9, max_iter=20_000).fit(x.double().numpy(), y.numpy())


@pytest.mark.parametrize("C", [1.0, 0.01])
@pytest.mark.parametrize("case", CASES)
def test_equals_scikit_learn(case: str, C: float) -> None:
    x, y, classes = CASES[case]()
    fitted = probes.fit(x[None], [y], [classes], C=C, tolerance=1e-9)
    assert fitted.converged.all()
    expected = peer(x, y, C)
    weights = fitted.weights[0, 0].numpy()
    if classes == 2:  # scikit-learn keeps the difference only
        weights = weights[1:] - weights[:1]
    np.testing.assert_allclose(weights, expected.coef_, atol=1e-4)
    p = fitted.probabilities(x[None])[0, 0].numpy()
    np.testing.assert_allclose(p, expected.predict_proba(x.numpy()), atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_as_accurate_as_scikit_learn_with_default_settings(case: str) -> None:
    x, y, classes = CASES[case]()
    new, its_labels = x + 0.05 * x.roll(1, 0), y  # rows near the old ones, where errors would show
    fitted = probes.fit(x[None].float(), [y], [classes])
    assert fitted.converged.all()
    accuracy, probability = fitted.score(new[None].float(), its_labels)
    expected = peer(x, y, 1.0)
    assert accuracy.item() == pytest.approx(expected.score(new.numpy(), y.numpy()), abs=0.005)
    p = expected.predict_proba(new.numpy())[np.arange(len(y)), y.numpy()].mean()
    assert probability.item() == pytest.approx(p, abs=0.005)


@pytest.fixture
def many() -> tuple[torch.Tensor, list[torch.Tensor], list[int]]:
    """Four layers between hopeless and separable, two targets, labels that differ by layer."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(5, (4, 240), generator=generator)
    x = torch.randn(4, 240, 7, generator=generator, dtype=torch.float64)
    x[..., :5] += torch.arange(4)[:, None, None] ** 2 * torch.nn.functional.one_hot(y, 5)
    return x, [y, (y[0] > 2).long()], [5, 2]


@pytest.mark.parametrize("block_bytes", [1, 2**30])
def test_a_batch_equals_one_problem_at_a_time(
    many: tuple[torch.Tensor, list[torch.Tensor], list[int]],
    block_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, labels, classes = many
    monkeypatch.setattr(probes, "BLOCK_BYTES", {"cpu": block_bytes, "cuda": block_bytes})
    together = probes.fit(x, labels, classes, subsets=3, tolerance=1e-8)
    # they end at different times, or leaving problems behind would not have been tried
    assert together.iterations[..., 0].max() > 2 * together.iterations[..., 0].min()
    for layer in range(4):
        for subset in range(3):
            rows = slice(80 * subset, 80 * (subset + 1))
            for target, (label, number) in enumerate(zip(labels, classes, strict=True)):
                own = (label[layer] if label.dim() == 2 else label)[rows]
                alone = probes.fit(x[layer : layer + 1, rows], [own], [number], tolerance=1e-8)
                expected = alone.probabilities(x[layer : layer + 1])[0, 0]
                found = together.probabilities(x, target)[layer, subset]
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_same_twice_and_features_untouched(
    many: tuple[torch.Tensor, list[torch.Tensor], list[int]],
) -> None:
    x, labels, classes = many
    before = x.clone()
    first = probes.fit(x, labels, classes, subsets=2)
    again = probes.fit(x, labels, classes, subsets=2)
    assert torch.equal(first.weights, again.weights)
    assert torch.equal(x, before)


def test_classes_that_do_not_occur_are_left_out() -> None:
    x, y, _ = linear(400, 6, 3, 1.0, seed=12)
    names = torch.tensor([1, 4, 6])  # of 8
    y = names[y]
    y[200:] = torch.where(y[200:] == 4, 1, y[200:])  # the second half knows only 1 and 6
    fitted = probes.fit(x[None], [y], [8], subsets=2, tolerance=1e-9)
    p = fitted.probabilities(x[None])[0]  # [2, N, 8]
    for half, rows in enumerate((slice(0, 200), slice(200, 400))):
        expected = peer(x[rows], y[rows], 1.0)
        known = torch.from_numpy(expected.classes_)
        given = p[half][:, known]
        np.testing.assert_allclose(given.numpy(), expected.predict_proba(x.numpy()), atol=1e-4)
        others = torch.ones(8, dtype=torch.bool)
        others[known] = False
        assert (p[half][:, others] == 0).all()
        assert set(fitted.predictions(x[None])[0, half].tolist()) <= set(known.tolist())


def test_a_single_class_is_certain() -> None:
    x, _, _ = linear(50, 4, 3, 1.0, seed=13)
    fitted = probes.fit(x[None], [torch.full((50,), 2)], [3])
    accuracy, probability = fitted.score(x[None], torch.full((50,), 2))
    assert (accuracy.item(), probability.item(), fitted.iterations.item()) == (1.0, 1.0, 0)


@pytest.mark.parametrize("classes", [2, 6])
def test_separable_data_end_soon(classes: int) -> None:
    x, y, _ = separable(classes)
    fitted = probes.fit(x[None].float(), [y], [classes])
    assert fitted.converged.all()
    assert fitted.iterations.max() <= 30
    assert fitted.weights.abs().max() < 10


def test_what_cannot_be_read_is_settled_in_a_few_iterations() -> None:
    x, y, _ = linear(5000, 50, 6, 0.0, seed=14)
    fitted = probes.fit(x[None].float(), [y], [6])
    assert fitted.converged.all()
    assert fitted.iterations.max() <= 4


def test_says_when_it_has_not_converged() -> None:
    x, y, classes = correlated()
    assert not probes.fit(x[None], [y], [classes], max_iterations=2).converged.any()


def test_a_tolerance_beyond_float32_ends_all_the_same() -> None:
    x, y, classes = linear(300, 5, 3, 1.0, seed=15)
    fitted = probes.fit(x[None].float(), [y], [classes], tolerance=1e-12, max_iterations=200)
    assert not fitted.converged.any()
    expected = peer(x.float(), y, 1.0).coef_
    np.testing.assert_allclose(fitted.weights[0, 0].numpy(), expected, atol=1e-3)


def test_a_preconditioner_from_some_rows_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, classes = linear(600, 10, 6, 1.0, seed=8)
    whole = probes.fit(x[None], [y], [classes], tolerance=1e-8)
    monkeypatch.setattr(logistic, "GRAM_ROWS", 100)
    part = probes.fit(x[None], [y], [classes], tolerance=1e-8)
    assert not torch.equal(part.weights, whole.weights)
    torch.testing.assert_close(part.weights, whole.weights, atol=1e-5, rtol=0)


def test_half_precision_features_are_fitted_in_float32() -> None:
    x, y, classes = linear(300, 5, 3, 1.0, seed=16)
    half = x[None].half()
    fitted = probes.fit(half, [y], [classes])
    assert fitted.weights.dtype == torch.float32
    exact = probes.fit(half.float(), [y], [classes])
    assert torch.equal(fitted.weights, exact.weights)


def test_matmul_precision_is_put_back() -> None:
    x, y, classes = linear(50, 4, 3, 1.0, seed=13)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        probes.fit(x[None].float(), [y], [classes])
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_standardise_equals_scikit_learn_and_silences_constants() -> None:
    generator = torch.Generator().manual_seed(17)
    scale, shift = torch.logspace(-2, 2, 6), torch.linspace(-50, 50, 6)
    train = torch.randn(2, 200, 6, generator=generator) * scale + shift
    train[..., 3] = 41.7
    held_out = train[:, :50] + 0.1 * scale
    expected = [StandardScaler().fit(layer) for layer in train.double().numpy()]
    wanted = [scaler.transform(layer) for scaler, layer in zip(expected, held_out, strict=True)]
    held_out[..., 3] = 41.8  # what did not vary in training says nothing here either
    rows = train.clone()
    mean, factor = probes.standardise(train, held_out)
    varying = [0, 1, 2, 4, 5]
    assert mean.shape == factor.shape == (2, 1, 6)
    assert torch.equal((rows - mean) * factor, train), "it returns the numbers it used"
    assert (train[..., 3] == 0).all()
    assert (held_out[..., 3] == 0).all()
    np.testing.assert_allclose(held_out[..., varying], np.stack(wanted)[..., varying], atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C 0.0 must be above 0"),
        ({"subsets": 3}, "10 rows cannot be split into 3"),
        ({"labels": [torch.zeros(9, dtype=torch.long)]}, r"labels of shape \(9,\)"),
        ({"labels": [torch.full((10,), 5)]}, "the label 5; its 2 classes are 0 to 1"),
        ({"labels": [torch.full((10,), -1)]}, "the label -1"),
        ({"classes": [2, 2]}, "1 targets have 2 numbers of classes"),
        ({"features": torch.full((1, 10, 3), torch.nan)}, "not a number"),
    ],
)
def test_bad_input_is_quoted(change: dict[str, object], message: str) -> None:
    given = {
        "features": torch.ones(1, 10, 3),
        "labels": [torch.zeros(10, dtype=torch.long)],
        "classes": [2],
    }
    with pytest.raises(StatetraceError, match=message):
        probes.fit(**(given | change))  # type: ignore[arg-type]
