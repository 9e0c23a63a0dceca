"""Interventions that label trained models; no verdict uses any of them.

- Interchange: two neighboring actions are replaced, at one layer, by two others with the same
  product, from a run in which only they differ. Where later tokens add up actions one by one, and
  all in the same layer, nothing changes. Where they compose, some have read one of the two already
  and will read the other: the answer is wrong.
- Swap and erasure: at the last token the quotient's subspace, the span of its class means, is
  replaced by that of a sequence with another image, or by its mean.
- Cut: the output of a block is replaced by its mean over sequences, and the longest length that is
  still solved is read off, for the state and for each quotient.

Cost: a few seconds of one core for a small model. Caveat: sequences that the model gets wrong are
left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from statetrace.groups import Quotient
from statetrace.interventions.capture import capture, overwrite
from statetrace.interventions.exchange import Exchange
from statetrace.interventions.sites import Site
from statetrace.lenses.parts.answers import answers, device_of
from statetrace.lenses.parts.subspaces import means_basis
from statetrace.models import anatomy
from statetrace.models.predict import evaluating
from statetrace.tasks.sequences import Sequences, scan
from statetrace.tasks.word_problem import WordProblem

PAIRS, SWAPS, SEQUENCES, FEWEST, SEED = 256, 128, 512, 20, 20_261
SOLVED = 0.9
SHORT = (4, 6, 8, 12, 16)
"""Lengths below the longest at which pairs are interchanged too."""

ALIKE, BETWEEN = "alike", 0.05
"""The share of a vote that is kept is between if it is at least 0.05 from both ends."""

Images = dict[str, np.ndarray]
"""Each link of the group's chain, the state last -> its classes [order]."""


def measure(model: Any, task: WordProblem, longest: int) -> dict[str, Any]:
    """The evidence of a model that solves sequences up to `longest`; plain JSON. "interchange" has
    for each link a row of layers for each [length, position] of "pairs"."""
    chain = task.group.chain()
    images = {quotient.name: quotient.map.astype(np.int64) for quotient in chain}
    images["state"] = np.arange(task.group.order)
    lengths = [n for n in SHORT if 1.3 * n < longest] + [longest]
    at = [(n, position) for n in lengths for position in positions(n)]
    with torch.no_grad(), evaluating(model):
        shares = {pair: interchange(model, task, images, *pair) for pair in at}
        measured = {pair: wrong for pair, wrong in shares.items() if wrong}
        return {
            "length": longest,
            "layers": anatomy(model).layers,
            "pairs": [list(pair) for pair in measured],
            "interchange": {name: [wrong[name] for wrong in measured.values()] for name in images},
            ALIKE: [wrong[ALIKE] for wrong in measured.values()],
            "subspace": {
                quotient.name: exchange_quotient(model, task, longest, quotient)
                for quotient in chain
            },
            "cut": cut(model, task, longest, images),
        }


def positions(length: int) -> list[int]:
    """Of the first of two actions: evenly spaced, and 2, 4, 8, ... from the end, where a scan
    divides the sequence."""
    even = {round(share * (length - 3)) for share in (0, 0.25, 0.5, 0.75, 1)}
    return sorted(even | {length - 1 - 2**k for k in range(1, (length - 1).bit_length())})


def interchange(
    model: Any, task: WordProblem, images: Images, length: int, position: int
) -> dict[str, list[float]] | None:
    """Link -> the share of answers that become wrong in it and are correct in those before it, by
    layer; None where too few pairs have another with the same product."""
    ours, theirs = _same_product(task, length, position)
    if len(ours) < FEWEST:
        return None
    states = scan(task.group, ours)[:, -1]
    stride = task.vocabulary.stride
    start = task.vocabulary.tokens(length) - (length - position) * stride
    exchange = Exchange(model, _tokens(task, model, ours), _tokens(task, model, theirs), start)
    last = max(exchange.change)
    right = _elements(task, exchange.logits(last, None)) == states
    for change in exchange.change.values():
        change[:, 2 * stride :] = 0
    unchanged = exchange.logits(last, None)
    right &= _elements(task, unchanged) == states
    if right.sum() < FEWEST:
        return None
    wrong: dict[str, list[float]] = {name: [] for name in (*images, ALIKE)}
    for layer in exchange.change:
        logits = exchange.logits(layer, None)
        given = _elements(task, logits)
        earlier = right.copy()
        for name, image in images.items():
            correct = image[given] == image[states]
            wrong[name].append(_share((earlier & ~correct)[right]))
            earlier &= correct
        kept = _votes(task, logits, states)[right] / _votes(task, unchanged, states)[right]
        wrong[ALIKE].append(_alike(kept[kept < 1 - BETWEEN]))
    return wrong


def _alike(kept: np.ndarray) -> float:
    """1 if most votes that an interchange lowers are lowered to the same share, as where a second
    computation adds its part of the logits."""
    middle = np.median(kept) if len(kept) >= FEWEST else 0.0
    if not BETWEEN < middle < 1 - BETWEEN:
        return 0.0
    return float(np.mean(np.abs(kept - middle) < BETWEEN) > 0.5)


def _votes(task: WordProblem, logits: torch.Tensor, states: np.ndarray) -> np.ndarray:
    """By how much the logit of the state exceeds the median one [P]."""
    ids = torch.as_tensor(task.vocabulary.elements, device=logits.device)
    values = logits[:, ids].cpu().numpy().astype(np.float64)
    own: np.ndarray = values[np.arange(len(states)), states] - np.median(values, axis=1)
    return own


def _same_product(task: WordProblem, length: int, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences [P, length], and the same with another pair of actions of the same product."""
    rng = np.random.default_rng([SEED, length, position])
    alphabet, table = _alphabet(task), task.group.table
    ours = alphabet[rng.integers(len(alphabet), size=(8 * PAIRS, length))]
    product = scan(task.group, ours[:, position : position + 2])[:, -1]
    theirs = ours.copy()
    theirs[:, position] = alphabet[rng.integers(len(alphabet), size=len(ours))]
    pairs = np.stack(np.meshgrid(alphabet, alphabet, indexing="ij"), -1).reshape(-1, 2)
    second = np.full(table.shape, -1)  # first action, product -> second action
    second[pairs[:, 0], scan(task.group, pairs)[:, -1]] = pairs[:, 1]
    theirs[:, position + 1] = second[theirs[:, position], product]
    fits = (theirs[:, position + 1] >= 0) & (theirs[:, position] != ours[:, position])
    return ours[fits][:PAIRS], theirs[fits][:PAIRS]


def exchange_quotient(
    model: Any, task: WordProblem, length: int, quotient: Quotient
) -> dict[str, list[float]]:
    """By layer: the share of answers with the image of the other sequence after a swap of the
    quotient's subspace, and the share whose image is wrong after its erasure."""
    rng = np.random.default_rng([SEED, length])
    alphabet = _alphabet(task)
    actions = alphabet[rng.integers(len(alphabet), size=(SEQUENCES, length))]
    states = scan(task.group, actions)[:, -1]
    right = _last_answers(model, task, actions) == states
    actions, states, image = actions[right], states[right], quotient.map.astype(np.int64)
    tokens = _tokens(task, model, actions)
    sites = [Site("resid", layer) for layer in range(anatomy(model).layers + 1)]
    streams = {site.layer: x[:, -1:] for site, x in capture(model, tokens, sites).items()}
    base = rng.permutation(len(actions))[:SWAPS]
    others = [np.flatnonzero(image[states] != image[state]) for state in states[base]]
    source = np.array([rng.choice(rows) for rows in others])
    exchange = Exchange(model, tokens[base], tokens[source], tokens.shape[1] - 1)
    at, classes = (torch.from_numpy(x).to(tokens.device) for x in (states[:, None], image))
    shares: dict[str, list[float]] = {"swap": [], "erase": []}
    for layer, points in streams.items():
        basis = means_basis(points, at.long(), classes)
        given = _elements(task, exchange.logits(layer, basis))
        shares["swap"].append(_share(image[given] == image[states[source]]))
        exchange.change[layer] = points.mean(0, keepdim=True) - exchange.resid[layer]
        given = _elements(task, exchange.logits(layer, basis))
        shares["erase"].append(_share(image[given] != image[states[base]]))
    return shares


def cut(model: Any, task: WordProblem, longest: int, images: Images) -> dict[str, list[int]]:
    """Link -> by block, the longest length that is still solved without it."""
    rng = np.random.default_rng([SEED, 1])
    alphabet = _alphabet(task)
    actions = alphabet[rng.integers(len(alphabet), size=(SEQUENCES, longest))]
    sequences = Sequences(actions, scan(task.group, actions))
    tokens = _tokens(task, model, actions)
    solved: dict[str, list[int]] = {name: [] for name in images}
    layers = range(1, anatomy(model).layers + 1)
    blocks = [(Site("attn_out", layer), Site("mlp_out", layer)) for layer in layers]
    means = {
        site: stream.mean(0)
        for site, stream in capture(model, tokens, [s for block in blocks for s in block]).items()
    }
    for block in blocks:
        with overwrite(model, {site: _constant(means[site]) for site in block}):
            given = answers(model, task, sequences)
        for name, image in images.items():
            correct = (image[given] == image[sequences.states]).mean(0)
            chance = 1 / (int(image.max()) + 1)
            failed = (correct - chance) / (1 - chance) < SOLVED
            solved[name].append(int(failed.argmax()) if failed.any() else longest)
    return solved


def _constant(mean: torch.Tensor) -> Any:
    return lambda activation: mean.expand_as(activation)


def _alphabet(task: WordProblem) -> np.ndarray:
    return np.asarray(range(task.group.order) if task.actions is None else task.actions)


def _tokens(task: WordProblem, model: Any, actions: np.ndarray) -> torch.Tensor:
    rows = torch.from_numpy(np.ascontiguousarray(actions).astype(np.int64))
    return task.encode(rows.to(device_of(model)))


def _last_answers(model: Any, task: WordProblem, actions: np.ndarray) -> np.ndarray:
    return answers(model, task, Sequences(actions, scan(task.group, actions)))[:, -1]


def _elements(task: WordProblem, logits: torch.Tensor) -> np.ndarray:
    ids = torch.as_tensor(task.vocabulary.elements, device=logits.device)
    return np.asarray(logits[:, ids].argmax(-1).cpu())


def _share(hits: np.ndarray) -> float:
    return round(float(np.mean(hits)), 3)
