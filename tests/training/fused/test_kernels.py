"""The Triton kernels against the plain operations: on a GPU where there is one, else by Triton's
interpreter. Same inputs, fresh outputs full of NaN: every number must have been written."""

import sys

import pytest
import torch
from torch.nn.functional import cross_entropy

from statetrace.tasks.batch import UNSUPERVISED
from statetrace.training.fused import plain
from statetrace.training.fused.operations import (
    LONGEST_IN_FLOAT32,
    Dropout,
    HeadLayout,
    Residual,
)

pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
from statetrace.training.fused import kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS, WIDTH = 2, 24


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(DEVICE)


def nothing(*shape):
    return torch.full(shape, float("nan"), device=DEVICE)


def drop(share, salt):
    keys = torch.tensor([12345, 4_000_000_000], device=DEVICE)
    return Dropout(share, keys, salt) if share else None


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(("added", "normed"), [(0, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("upstream", [False, True])
def test_add_and_norm(share, added, normed, upstream):
    rows = 33
    x = random(SEEDS, rows, WIDTH)
    adds = [
        Residual(
            random(SEEDS, rows, WIDTH, seed=i), random(SEEDS, WIDTH, seed=i), drop(share, 5 + i)
        )
        for i in range(1, 1 + added)
    ]
    norms = [
        (random(SEEDS, WIDTH, seed=9 + i), random(SEEDS, WIDTH, seed=19 + i)) for i in range(normed)
    ]
    douts = [random(SEEDS, rows, WIDTH, seed=29 + i) for i in range(normed)]
    above = random(SEEDS, rows, WIDTH, seed=39) if upstream else None
    results = []
    for ops in (kernels, plain):
        stream, outs, saved = ops.add_norm(x, adds, norms, 1e-5, torch.float32)
        grads = [(nothing(SEEDS, WIDTH), nothing(SEEDS, WIDTH)) for _ in norms]
        biases = [nothing(SEEDS, WIDTH) for _ in adds]
        g, deltas = ops.add_norm_back(saved, above, douts, norms, grads, adds, biases)
        results.append([stream, *outs, g, *deltas, *[t for pair in grads for t in pair], *biases])
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    h, bias, da = random(SEEDS, 33, 40) * 3, random(SEEDS, 40), random(SEEDS, 33, 40, seed=1)
    results = []
    for ops in (kernels, plain):
        a, saved = ops.gelu(h.clone(), bias, approximate)
        dbias = nothing(SEEDS, 40)
        results.append([a, ops.gelu_back(da, saved, bias, approximate, dbias), dbias])
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


def heads_of(batch, length, heads, width, rotated=0, joint=False, share=0.0):
    """`joint`: a head's query, key and value side by side, as Pythia has them; else as GPT-2."""
    dims = torch.arange(width, device=DEVICE)
    half = rotated // 2
    swapped = torch.where(dims < half, dims + half, dims - half)
    partners = torch.where(dims < rotated, swapped, dims)
    turns = None
    if rotated:
        angles, rest = random(length, half), (length, width - rotated)
        ones, zeros = torch.ones(rest, device=DEVICE), torch.zeros(rest, device=DEVICE)
        turns = (
            torch.cat([angles.cos(), angles.cos(), ones], dim=1),
            torch.cat([-angles.sin(), angles.sin(), zeros], dim=1),
        )
    strides = (width, 3 * width) if joint else (heads * width, width)
    return HeadLayout(
        batch, length, heads, width, strides, turns, partners, rotated, drop(share, 2)
    )


def attended(ops, layout, qkv, dz):
    """The result and the gradient of the projection."""
    before = qkv.clone()
    z, saved = ops.attention(qkv, layout)
    dqkv = ops.attention_back(dz, saved, layout)
    assert torch.equal(qkv, before)
    return z, dqkv


SHAPES = [  # heads, width, rotated, joint
    (3, 8, 0, False),
    (3, 8, 4, True),
    (2, 24, 0, True),
    (2, 32, 8, False),
    (2, 16, 16, True),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [5, 64, 65, 101, 128])  # one block of positions, and two
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_attention(shape, length, share):
    if DEVICE == "cuda" and length > LONGEST_IN_FLOAT32:
        pytest.skip("takes minutes to compile in float32, and the fused step does not use it")
    heads, width, rotated, joint = shape
    batch = 2 if length < 64 else 1
    layout = heads_of(batch, length, heads, width, rotated, joint, share)
    qkv = random(SEEDS, batch * length, 3 * heads * width)
    dz = random(SEEDS, batch * length, heads * width, seed=1)
    results = [attended(ops, layout, qkv, dz) for ops in (kernels, plain)]
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("shape", [*SHAPES, (2, 64, 16, True)])
@pytest.mark.parametrize("length", [20, 101])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_attention_in_half_precision_differs_by_rounding(shape, length, share):
    heads, width, rotated, joint = shape
    # Triton's interpreter has no products in bfloat16
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float16
    layout = heads_of(1, length, heads, width, rotated, joint, share)
    qkv = random(SEEDS, length, 3 * heads * width).to(dtype)
    dz = random(SEEDS, length, heads * width, seed=1).to(dtype)
    ours = attended(kernels, layout, qkv, dz)
    theirs = attended(plain, layout, qkv.float(), dz.float())
    assert [mine.dtype for mine in ours] == [dtype, dtype]
    for mine, expected in zip(ours, theirs, strict=True):
        assert (mine.float() - expected).norm() < 4 * torch.finfo(dtype).eps * expected.norm()


@pytest.mark.parametrize("vocab", [7, 40, 129])  # the last by a general product
@pytest.mark.parametrize("half", [False, True])
def test_rows_are_added_up_by_token(vocab, half):
    rows, width = 150, 72
    # the interpreter multiplies bfloat16 as if it were integers
    short = torch.bfloat16 if DEVICE == "cuda" else torch.float16
    dtype = short if half else torch.float32
    x = random(SEEDS, rows, width).to(dtype)
    tokens = torch.randint(0, vocab, (SEEDS, rows), generator=torch.manual_seed(0)).to(DEVICE)
    expected = torch.zeros(SEEDS, vocab, width, device=DEVICE, dtype=torch.float64)
    expected.scatter_add_(1, tokens[..., None].expand(-1, -1, width), x.double())
    rounding = torch.finfo(dtype).eps if half else 2e-5
    ours = kernels.by_token(x, tokens, vocab).double()
    torch.testing.assert_close(ours, expected, rtol=rounding, atol=2e-3)
    close(plain.by_token(x.float(), tokens, vocab).double(), expected)


def test_longer_sequences_use_the_plain_operations():
    layout = HeadLayout(1, 130, 1, 16, (16, 16), None, torch.arange(16), 0)
    assert not kernels.fits(layout)


def test_dropout_masks_are_the_same_and_of_the_right_share():
    x = torch.ones(SEEDS, 100, 1000, device=DEVICE)
    for salt in (0, 3):
        ours = kernels.dropped(x, drop(0.1, salt))
        assert torch.equal(ours, plain.dropped(x, drop(0.1, salt)))
        shares = (ours == 0).float().mean(dim=(1, 2))
        assert ((shares - 0.1).abs() < 0.005).all()
    assert not torch.equal(ours, kernels.dropped(x, drop(0.1, 4)))
    assert not torch.equal(ours[0], ours[1])


def test_norms_of_gradients(monkeypatch):
    """Sizes that are not multiples of a block, one of them more than a round of programs."""
    monkeypatch.setattr(sys.modules[kernels.norms.__module__], "PROGRAMS", 4)
    grads = [random(SEEDS, 700).half(), random(SEEDS, 7), random(SEEDS, 150)]
    close(kernels.norms(grads, block=16), plain.norms(grads))


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("half", [False, True])
def test_a_step_of_adam(clip, half):
    """Against torch's own, in which each seed is a parameter; the second has a small gradient."""
    size, schedule = 1500, (1e-2, 1 - 0.9**3, 1 - 0.95**3)
    value, grad = random(SEEDS, size), random(SEEDS, size, seed=1)
    grad[1] *= 1e-3
    first, second = random(SEEDS, size, seed=2), random(SEEDS, size, seed=3).square()
    parameters = [torch.nn.Parameter(parameter.clone()) for parameter in value]
    usual = torch.optim.AdamW(parameters, schedule[0], (0.9, 0.95), 1e-8, 0.1)
    for parameter, *state, g in zip(parameters, first, second, grad, strict=True):
        names = ("exp_avg", "exp_avg_sq")
        moments = {name: moment.clone() for name, moment in zip(names, state, strict=True)}
        usual.state[parameter] = moments | {"step": torch.tensor(2.0)}
        parameter.grad = g.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_([parameter], clip)
    usual.step()
    work = nothing(SEEDS, size).half() if half else value
    norms, rates = kernels.norms([grad]), torch.tensor(schedule, device=DEVICE)
    kernels.adam(value, work, grad, (first, second), norms, rates, clip, 0.1, (0.9, 0.95), 1e-8)
    for n, parameter in enumerate(parameters):
        close(value[n], parameter.detach())
        close(first[n], usual.state[parameter]["exp_avg"])
        close(second[n], usual.state[parameter]["exp_avg_sq"])
    assert torch.equal(work, value.to(work.dtype))


@pytest.mark.parametrize(("vocab", "wide"), [(7, 8), (8, 8), (60, 64)])
def test_cross_entropy(vocab, wide):
    """Some targets are not supervised, in one seed more than in the other."""
    rows = 333
    logits = 3 * random(SEEDS, rows, wide)
    targets = torch.randint(0, vocab, (SEEDS, rows), generator=torch.manual_seed(0)).to(DEVICE)
    targets[0, ::5] = targets[1, ::3] = UNSUPERVISED
    used = logits[..., :vocab].clone().requires_grad_()
    expected = torch.stack([cross_entropy(*pair) for pair in zip(used, targets, strict=True)])
    expected.sum().backward()
    losses, d = kernels.cross_entropy(logits, targets, vocab)
    close(losses, expected.detach())
    close(d[..., :vocab], used.grad)
    assert (d[..., vocab:] == 0).all()


def test_matrices_are_turned():
    x = random(3, 2, 70, 130)[:, 1]
    ours, theirs = kernels.transposed(x), plain.transposed(x)
    assert ours.is_contiguous()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("rows", [5, 333])
def test_columns_are_added_up(rows):
    """Columns that are known to add up to nothing are left out, whatever they hold."""
    x = random(3, 2, rows, 70)[:, 1]
    known = torch.zeros(70, dtype=torch.int8, device=DEVICE)
    known[10:20] = 1
    ours, theirs = nothing(3, 2, 70)[:, 1], nothing(3, 70)
    kernels.columns(x, known, ours)
    plain.columns(torch.where(known == 1, 0.0, x), known, theirs)
    close(ours, theirs)
