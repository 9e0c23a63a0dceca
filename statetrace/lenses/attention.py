"""Attention: parity heads, their ablation, and attention trees (section 4.5, appendix F; Figures 15
and 16, Table 2).

Layers are numbered 1..L (layer l writes residual stream l of the other lenses) and heads from 0;
the paper's Table 2 numbers layers from 0.

Cost: one forward pass over `examples` sequences that returns attention maps, in pieces of a few
hundred megabytes, and 26 forward passes over `ablation_examples` sequences for the ablations.
Caveat: parity_heads.py, attention_tree.py and attention_ablation.py state the definitions. A model
without attention gets a result without rows and a note.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.groups import Quotient
from statetrace.interventions.sites import Site
from statetrace.lenses.parts.answers import check_fits, device_of, low_accuracy, too_few
from statetrace.lenses.parts.attention_ablation import Ablation, ablations, correct
from statetrace.lenses.parts.attention_maps import fitting, maps_or_reason, read_maps
from statetrace.lenses.parts.attention_table import AttentionTable, spread
from statetrace.lenses.parts.parity_heads import (
    contrast,
    outside_kernel,
    relabelings,
    score_ceiling,
)
from statetrace.lenses.result import LensResult, Progress, no_progress, part_of
from statetrace.lenses.specs import AttentionSpec
from statetrace.models import anatomy
from statetrace.models.predict import evaluating
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem


def attention(
    model: Any,
    task: WordProblem,
    spec: AttentionSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Head scores, ablations of the top heads, and attention trees."""
    spec = spec or AttentionSpec()
    last = task.length if spec.last is None else spec.last
    settings = dataclasses.asdict(spec) | {"last": last}
    check_fits(model, task, last)
    requested = max(spec.examples, spec.ablation_examples if spec.ablation_sizes else 0)
    sequences = task.draw(requested, spec.seed, last)
    notes = too_few(len(sequences), requested, last)
    table = AttentionTable()
    with evaluating(model):
        example = maps_or_reason(model, task, sequences.actions[:1])
        if isinstance(example, str):
            progress(1.0)
            return LensResult("attention", settings, table.columns, notes=(example,))
        quotient = _quotient(task, spec, last, notes)
        labels = _labels(task, spec, quotient)
        actions, chosen = sequences.actions[: spec.examples], sequences[: spec.ablation_examples]
        reading, ablating = part_of(progress, 0.0, 0.5), part_of(progress, 0.5, 1.0)
        read = read_maps(model, task, spec, actions, labels, example, reading)
        summary: dict[str, Any] = {"length": last, "quotient": quotient and quotient.name}
        summary["attended"] = table.add_attended(read.attended)
        arrays = read.drawings
        if quotient is not None:
            ranked = rank_heads(read.scores[0])
            top = ranked[: spec.top]
            summary["score_ceiling"] = score_ceiling(spec.first, last)
            summary |= _scores(quotient.name, top, read.scores, table, notes)
            arrays |= {"scores": read.scores[0].astype(np.float32)}
            arrays |= _top_maps(top, example, actions[0], labels[0])
            summary |= _ablate(model, task, spec, chosen, quotient, ranked, table, notes, ablating)
        if read.trees is not None:
            summary |= table.add_trees(read.trees)
    progress(1.0)
    return LensResult("attention", settings, table.columns, arrays, summary, tuple(notes))


def rank_heads(scores: np.ndarray) -> list[Site]:
    """All heads by their mean score [L, H, n], best first; ties by layer and head."""
    means = scores.mean(-1)
    order = np.argsort(-means, axis=None, kind="stable")
    heads = zip(*np.unravel_index(order, means.shape), strict=True)
    return [Site("head", int(layer) + 1, int(head)) for layer, head in heads]


def _quotient(
    task: WordProblem, spec: AttentionSpec, last: int, notes: list[str]
) -> Quotient | None:
    """The quotient that heads are scored by; None, with a note, if they cannot be scored."""
    quotient, note = contrast(task, spec.quotient)
    if quotient is not None and last <= spec.first:
        quotient = None
        note = (
            f"no parity-head scores: {last} actions are too few for prefixes of {spec.first} or "
            "more; use a smaller first"
        )
    notes += [note] if note else []
    return quotient


def _labels(task: WordProblem, spec: AttentionSpec, quotient: Quotient | None) -> np.ndarray:
    """[labels, order]: the elements that count as odd, the true labels first; none without a
    quotient."""
    if quotient is None:
        return np.zeros((0, task.group.order), dtype=bool)
    outside = outside_kernel(quotient)
    rng = np.random.default_rng([spec.seed, 1])
    others = relabelings(outside, task.actions, spec.relabelings, rng)
    return np.concatenate((outside[None], others))


def _scores(
    name: str, top: list[Site], scores: np.ndarray, table: AttentionTable, notes: list[str]
) -> dict[str, Any]:
    """Fill the table; returns the top heads and the chance level for the summary."""
    table.add_scores("head score", name, scores[0])
    heads = []
    for site in top:
        score = spread(scores[0, site.layer - 1, site.head])
        entry = {"layer": site.layer, "head": site.head, "score": score.mean, "std": score.std}
        heads.append(entry)
    summary: dict[str, Any] = {"top_heads": heads}
    if len(scores) > 1:
        by_chance = scores[1:].mean(-1)  # [relabelings, L, H]
        table.add_scores("by chance", name, np.moveaxis(by_chance, 0, -1))
        best, expected = float(scores[0].mean(-1).max()), float(by_chance.max((1, 2)).mean())
        summary["top_score_by_chance"] = expected
        if best <= expected:
            notes.append(
                f"no {name} head: the best score is {best:.1f}%, not above chance "
                f"({expected:.1f}%, the best score for as many randomly chosen actions)"
            )
    return summary


def _top_maps(
    top: list[Site], example: Tensor, actions: np.ndarray, outside: np.ndarray
) -> dict[str, np.ndarray]:
    """For the figure: the maps of the top heads on the first example, and its odd actions."""
    maps = [example[site.layer - 1, 0, site.head] for site in top]
    return {
        "top_maps": torch.stack(maps).float().cpu().numpy(),  # [top, T, T]
        "top_maps_heads": np.array([(s.layer, s.head) for s in top], dtype=np.int32),
        "top_maps_actions": actions.astype(np.int32),  # [T]
        "top_maps_odd": outside[actions],  # [T]
    }


def _ablate(
    model: Any,
    task: WordProblem,
    spec: AttentionSpec,
    sequences: Sequences,
    quotient: Quotient,
    ranked: list[Site],
    table: AttentionTable,
    notes: list[str],
    progress: Progress,
) -> dict[str, Any]:
    """Fill the table and the notes; returns the accuracy lost with each set of heads."""
    sizes = [size for size in spec.ablation_sizes if size <= len(ranked)]
    if anatomy(model).attention_projection is None:
        sizes = []
        notes.append(
            f"no ablations: the output projection of {model.config.model_type!r} attention is "
            "unknown; register a model family for it"
        )
    elif len(sizes) < len(spec.ablation_sizes):
        notes.append(f"ablations of at most {len(ranked)} heads: the model has no more")
    if not sizes:
        return {}
    vocabulary, width = model.get_output_embeddings().weight.shape
    # Logits twice (in the dtype of the model and in float32), and activations of a block.
    each = 4 * task.vocabulary.tokens(sequences.length) * (2 * vocabulary + 16 * width)
    batch = min(512, fitting(each, device_of(model)))
    intact = correct(model, task, sequences, quotient, batch)
    accuracy = table.add_answers("none", None, intact)
    lengths, consequence = f"up to length {sequences.length}", ", so ablations can lose little"
    notes += low_accuracy(accuracy["state"], task.group.order, lengths, consequence)
    rng = np.random.default_rng([spec.seed, 2])
    results = ablations(
        model, task, sequences, quotient, ranked, sizes, spec.controls, rng, batch, progress
    )
    lost = []
    for ablation in results:
        heads = f"{ablation.kind} {ablation.size}"
        table.add_answers(heads, ablation.method, ablation.correct)
        drop = table.add_drop(heads, ablation.method, intact, ablation.correct)
        lost.append({"heads": heads, "method": ablation.method, "drop": drop})
    notes += _control_notes(results, spec.controls)
    return {"accuracy": accuracy, "ablation": lost}


def _control_notes(results: list[Ablation], controls: int) -> list[str]:
    """Notes on ablations whose control is missing or not from the same layers."""
    layers = {
        (each.kind, each.size): {tuple(sorted(site.layer for site in heads)) for heads in each.sets}
        for each in results
    }
    missing, elsewhere = [], []
    for size in sorted({each.size for each in results}):
        if ("control", size) not in layers:
            missing.append(str(size))
        elif layers["control", size] != layers["top", size]:
            elsewhere.append(str(size))
    notes = []
    if missing and controls:
        notes.append(f"no control for ablations of size {', '.join(missing)}: too few other heads")
    if elsewhere:
        notes.append(
            f"controls for ablations of size {', '.join(elsewhere)} are partly from other layers: "
            "the layers of the top heads have too few other heads"
        )
    return notes
