"""From a circuit in plain coordinates to the weights of a stock GPT-2.

The residual stream x is z in an orthonormal basis of vectors with mean zero, so that LayerNorm
subtracts nothing and divides by a norm that is the same for every input; its gain undoes that. The
rest is a change of basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from statetrace.models.compiled.circuit import Array, Block, Circuit, Head

EPSILON = 1e-8  # of LayerNorm
_SAMPLES = 16
_TOLERANCE = 1e-6


def assemble(circuit: Circuit, heads: int, basis: str, rng: np.random.Generator) -> GPT2LMHeadModel:
    """A GPT-2 in float32 that computes the circuit, in eval mode."""
    inner = max((head.inner for block in circuit.blocks for head in block.heads), default=1)
    used = max((len(block.heads) for block in circuit.blocks), default=1)
    heads = max(heads, used)
    head_width = max(inner, -(-(circuit.layout.size + 1) // heads))
    width = heads * head_width
    q = _basis(width, circuit.layout.size, basis, rng)  # [width, size]
    norms = _norms(circuit, rng)
    hidden = max(8, *(len(block.units) for block in circuit.blocks), 8)
    places = len(circuit.positions)
    config = GPT2Config(
        vocab_size=len(circuit.tokens),
        n_positions=places,
        n_embd=width,
        n_layer=len(circuit.blocks),
        n_head=heads,
        n_inner=hidden,
        activation_function="relu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=EPSILON,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # its random weights are all replaced
        model = GPT2LMHeadModel(config).eval()
    body = model.transformer
    with torch.no_grad():
        _put(body.wte.weight, circuit.tokens @ q.T)
        _put(body.wpe.weight, circuit.positions @ q.T)
        for i, block in enumerate(circuit.blocks):
            _attention(body.h[i].attn, block, q, heads, head_width, rng)
            _mlp(body.h[i].mlp, block, q, hidden, rng)
            for norm, size in zip((body.h[i].ln_1, body.h[i].ln_2), norms[i], strict=True):
                _norm(norm, size, width)
        _norm(body.ln_f, norms[-1][0], width)
        _put(model.lm_head.weight, circuit.readout @ q.T)
    return model


def _put(parameter: torch.Tensor, values: Array) -> None:
    parameter.copy_(torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)))


def _norm(norm: Any, size: float, width: int) -> None:
    norm.weight.fill_(float(np.sqrt(size**2 / width + EPSILON)))
    norm.bias.zero_()


def _basis(width: int, size: int, kind: str, rng: np.random.Generator) -> Array:
    """[width, size], orthonormal columns of mean zero."""
    if kind == "random":
        vectors = rng.standard_normal((width, size))
        vectors -= vectors.mean(axis=0)
        return np.linalg.qr(vectors)[0]
    ramp = np.eye(width)[:, :size] - np.eye(width, k=-1)[:, :size]  # columns sum to zero
    return np.linalg.qr(ramp)[0]


def _dense(entries: Sequence[tuple[int, int, float]], rows: int, columns: int) -> Array:
    matrix = np.zeros((rows, columns))
    for row, column, weight in entries:
        matrix[row, column] += weight
    return matrix


def _attention(
    attn: Any, block: Block, q: Array, heads: int, head_width: int, rng: np.random.Generator
) -> None:
    """Heads the block does not need attend at random and write zero."""
    width, size = q.shape
    weight = rng.standard_normal((width, 3, heads, head_width)) / np.sqrt(width)
    out = np.zeros((heads, head_width, width))
    # the position of a head is arbitrary, so it is random
    for head, slot in zip(block.heads, rng.permutation(heads), strict=False):
        query, key, value, output = _matrices(head, size, head_width)
        weight[:, 0, slot] = q @ query * np.sqrt(head_width)  # GPT-2 divides by it
        weight[:, 1, slot] = q @ key
        weight[:, 2, slot] = q @ value
        out[slot] = output @ q.T
    _put(attn.c_attn.weight, weight.reshape(width, 3 * width))
    _put(attn.c_proj.weight, out.reshape(width, width))
    attn.c_attn.bias.zero_()
    attn.c_proj.bias.zero_()


def _matrices(head: Head, size: int, inner: int) -> tuple[Array, Array, Array, Array]:
    query, key, value = (_dense(m, size, inner) for m in (head.query, head.key, head.value))
    return query, key, value, _dense(head.output, size, inner).T


def _mlp(mlp: Any, block: Block, q: Array, hidden: int, rng: np.random.Generator) -> None:
    """Units the block does not need read at random and write zero."""
    width, size = q.shape
    units = len(block.units)
    into = rng.standard_normal((width, hidden)) / np.sqrt(width)
    out = np.zeros((hidden, width))
    bias = np.zeros(hidden)
    into[:, :units] = q @ _dense(block.units.inputs, size, units)
    out[:units] = _dense(block.units.outputs, units, size) @ q.T
    bias[:units] = block.units.biases
    order = rng.permutation(hidden)
    _put(mlp.c_fc.weight, into[:, order])
    _put(mlp.c_fc.bias, bias[order])
    _put(mlp.c_proj.weight, out[order])
    mlp.c_proj.bias.zero_()


def _norms(circuit: Circuit, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Norm of z before the attention and before the MLP of each block, and at the end; measured on
    some sequences, where it must be the same at every position. Blocks that count get their units
    here, which depend on it."""
    tokens = rng.integers(0, circuit.order, (_SAMPLES, len(circuit.positions)))
    tokens[:, : len(circuit.tokens) - circuit.order] = circuit.order  # the marker, if any, is first
    z = circuit.tokens[tokens] + circuit.positions  # [B, T, size]
    size = z.shape[-1]
    norms = []
    for block in circuit.blocks:
        before = _constant_norm(z, block.name)
        for head in block.heads:
            query, key, value, output = _matrices(head, size, head.inner)
            scores = (z @ query) @ (z @ key).transpose(0, 2, 1)
            scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            z = z + weights @ (z @ value) @ output
        rest = z.copy()
        rest[..., list(block.count)] = 0.0
        between = _constant_norm(rest, block.name)
        if block.staircase is not None:
            block.units = block.staircase(between**2)
        normed = z * (between / np.linalg.norm(z, axis=-1, keepdims=True))
        active = normed @ _dense(block.units.inputs, size, len(block.units))
        active = np.maximum(active + np.array(block.units.biases), 0)
        z = z + active @ _dense(block.units.outputs, len(block.units), size)
        norms.append((before, between))
    return [*norms, (_constant_norm(z, "end"), 0.0)]


def _constant_norm(z: Array, where: str) -> float:
    norms = np.linalg.norm(z, axis=-1)
    assert norms.max() - norms.min() < _TOLERANCE * norms.max(), (where, norms.min(), norms.max())
    return float(norms.mean())
