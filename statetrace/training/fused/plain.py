"""The operations of the fused training step in plain torch: the reference, used on CPUs. Sums over
rows are computed immediately; `deferred` is ignored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from statetrace.training.fused.operations import (
    FIRST,
    MASK32,
    SECOND,
    DeferredSums,
    Dropout,
    HeadLayout,
    Residual,
)

Pair = tuple[Tensor, Tensor]
Slots = Sequence[Tensor | None]
"""Where to write results; None, or too few, for anywhere."""


def add_norm(
    x: Tensor,
    adds: Sequence[Residual],
    norms: Sequence[Pair],
    eps: float,
    dtype: torch.dtype,
    slots: Slots = (),
) -> tuple[Tensor, list[Tensor], Any]:
    """Residual stream x [S, N, D] plus `adds`; its norms in `dtype`, one for each (weight, bias)
    [S, D]; and what the backward pass needs."""
    for add in adds:
        x = x + dropped(add.delta + add.bias[:, None].to(add.delta.dtype), add.drop)
    unit, mean, scale = torch.native_layer_norm(x, x.shape[-1:], None, None, eps)
    outs = [torch.addcmul(bias[:, None], unit, weight[:, None]).to(dtype) for weight, bias in norms]
    return x, _store_all(outs, slots), (x, unit, mean, scale)


def add_norm_back(
    saved: Any,
    upstream: Tensor | None,
    douts: Sequence[Tensor],
    norms: Sequence[Pair],
    norm_grads: Sequence[Pair],
    adds: Sequence[Residual],
    bias_grads: Sequence[Tensor],
    slots: Slots = (),
    deferred: DeferredSums | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The gradient of x (before the additions, in float32) and of every delta; those of weights and
    biases are written in place. `upstream` is the gradient of the sum itself."""
    x, unit, mean, scale = saved
    total: Tensor | None = None
    for dout, (weight, _), (dweight, dbias) in zip(douts, norms, norm_grads, strict=True):
        dout = dout.to(x.dtype)
        _columns(dout * unit, dweight)
        _columns(dout, dbias)
        part = dout * weight[:, None]
        total = part if total is None else total + part
    assert total is not None
    g: Tensor
    g, _, _ = torch.ops.aten.native_layer_norm_backward(
        total, x, x.shape[-1:], mean, scale, None, None, [True, False, False]
    )
    if upstream is not None:
        g = g + upstream
    deltas = []
    for add, dbias in zip(adds, bias_grads, strict=True):
        deltas.append(dropped(g, add.drop).to(add.delta.dtype))
        _columns(deltas[-1], dbias)
    return g, _store_all(deltas, slots)


def gelu(
    h: Tensor, bias: Tensor, approximate: str, slot: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """GELU of h [S, N, F] plus its bias [S, F]; and what the backward pass needs."""
    h = h + bias[:, None].to(h.dtype)
    return _store(F.gelu(h, approximate=approximate), slot), h


def gelu_back(
    da: Tensor,
    saved: Tensor,
    bias: Tensor,
    approximate: str,
    dbias: Tensor,
    slot: Tensor | None = None,
    deferred: DeferredSums | None = None,
) -> Tensor:
    dh: Tensor = torch.ops.aten.gelu_backward(da, saved, approximate=approximate)
    _columns(dh, dbias)
    return _store(dh, slot)


def attention(qkv: Tensor, heads: HeadLayout, slot: Tensor | None = None) -> tuple[Tensor, Any]:
    """Causal attention over the joint projection [S, B * T, 3 * H * E]: [S, B * T, H * E]."""
    if qkv.device.type == "cpu" and heads.drop is None:
        z, saved = _cpu_attention(qkv, heads)
        return _store(z, slot), saved
    joint = qkv.detach().requires_grad_()
    with torch.enable_grad():
        q, k, v = _parts(joint, heads)
        q, k = _rotate(q, heads), _rotate(k, heads)
        if heads.drop is None:
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=heads.scale)
        else:
            scores = (q @ k.mT).float() * heads.scale
            future = torch.ones(heads.length, heads.length, device=q.device).triu(1).bool()
            p = scores.masked_fill(future, float("-inf")).softmax(-1)
            seeds = qkv.shape[0]
            p = dropped(p.unflatten(0, (seeds, -1)), heads.drop).flatten(0, 1)
            z = p.to(v.dtype) @ v
        out = z.transpose(1, 2).reshape(*qkv.shape[:-1], -1)
    return _store(out.detach(), slot), (joint, out)


def attention_back(dz: Tensor, saved: Any, heads: HeadLayout, slot: Tensor | None = None) -> Tensor:
    """The gradient of the projection."""
    if len(saved) > 2:
        dqkv = _cpu_attention_back(dz, saved, heads)
    else:
        joint, out = saved
        (dqkv,) = torch.autograd.grad(out, joint, dz)
    return _store(dqkv, slot)


def _cpu_attention(qkv: Tensor, heads: HeadLayout) -> tuple[Tensor, Any]:
    """The same by torch's own attention kernel, called directly: its wrapper takes as long as the
    kernel for small models."""
    q, k, v = _parts(qkv, heads)
    q, k = _rotate(q, heads), _rotate(k, heads)
    z, logs = _FLASH(q, k, v, 0.0, True, scale=heads.scale)
    return z.transpose(1, 2).reshape(*qkv.shape[:-1], -1), (q, k, v, z, logs)


def _cpu_attention_back(dz: Tensor, saved: Any, heads: HeadLayout) -> Tensor:
    above = dz.view(-1, heads.length, heads.heads, heads.width).transpose(1, 2)
    dq, dk, dv = _FLASH_BACK(above, *saved, 0.0, True, scale=heads.scale)
    parts = [part.transpose(1, 2) for part in (_unrotate(dq, heads), _unrotate(dk, heads), dv)]
    side_by_side = heads.strides[0] == heads.width
    return torch.stack(parts, dim=3 if side_by_side else 2).view(*dz.shape[:-1], -1)


_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_BACK = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _parts(joint: Tensor, heads: HeadLayout) -> list[Tensor]:
    """Queries, keys and values, [S * B, H, T, E]."""
    rows = joint.view(-1, heads.length, joint.shape[-1])
    together = heads.strides[0] == heads.width  # a head's three lie side by side
    sizes = (heads.heads, 3, heads.width) if together else (3, heads.heads, heads.width)
    # unbind, not three selections: in the backward pass each of those would fill a projection
    parts = rows.unflatten(-1, sizes).unbind(-2 if together else -3)
    return [part.transpose(1, 2) for part in parts]


def _rotate(q: Tensor, heads: HeadLayout) -> Tensor:
    if heads.rotation is None:
        return q
    cosine, sine = heads.rotation
    return (q * cosine + q[..., heads.partners] * sine).to(q.dtype)


def _unrotate(d: Tensor, heads: HeadLayout) -> Tensor:
    """The backward pass: swapping partners is its own inverse."""
    if heads.rotation is None:
        return d
    cosine, sine = heads.rotation
    return d * cosine + (d * sine)[..., heads.partners]


def by_token(x: Tensor, tokens: Tensor, vocab: int) -> Tensor:
    """Rows of x [S, N, D] summed by their tokens [S, N]: [S, vocab, D], in float32. A product with
    a matrix of ones and zeros, because scattered additions have no fixed order."""
    each = torch.arange(vocab, device=tokens.device)
    where = (tokens[:, None] == each[:, None]).to(x.dtype)
    return torch.bmm(where, x).float()


def norms(grads: Sequence[Tensor]) -> Tensor:
    """The norm [S] of all gradients [S, ...] of each seed."""
    each = [torch.linalg.vector_norm(grad.flatten(1), dim=1, dtype=torch.float32) for grad in grads]
    return torch.linalg.vector_norm(torch.stack(each), dim=0)


def columns(x: Tensor, zero_columns: Tensor, out: Tensor) -> None:
    """Sums over the rows of matrices [n, r, c], into `out` [n, c]; those of `zero_columns` [c] are
    known to be zero and may be skipped."""
    _columns(x, out)


def transposed(x: Tensor) -> Tensor:
    """Matrices [n, r, c] as [n, c, r] in memory."""
    return x.mT.contiguous()


def _store(value: Tensor, slot: Tensor | None) -> Tensor:
    """`value`, written into `slot` if there is one."""
    return value if slot is None else slot.copy_(value)


def _store_all(values: list[Tensor], slots: Slots) -> list[Tensor]:
    """The same for several values."""
    return [
        _store(value, slots[number] if number < len(slots) else None)
        for number, value in enumerate(values)
    ]


def _columns(values: Tensor, out: Tensor) -> None:
    """[S, N, D] summed over its rows in float32, into `out` [S, D]."""
    torch.sum(values, dim=1, dtype=out.dtype, out=out)


def dropped(values: Tensor, drop: Dropout | None) -> Tensor:
    """[S, ...] times its dropout mask."""
    return values if drop is None else values * keep_mask(values.shape, drop).to(values.dtype)


def keep_mask(shape: Sequence[int], drop: Dropout) -> Tensor:
    """The factor of elements [S, ...]: 0, or 1 / (1 - share)."""
    index = torch.arange(math.prod(shape[1:]), device=drop.keys.device)
    keys = _mix((drop.keys + drop.spread) & MASK32)
    hashed = _mix((_mix(index) + keys[:, None]) & MASK32)
    return (hashed >= drop.bound).float().mul(drop.scale).view(*shape)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit numbers that look random afterwards."""
    x = ((x ^ (x >> 16)) * FIRST) & MASK32
    x = ((x ^ (x >> 15)) * SECOND) & MASK32
    return x ^ (x >> 16)
