"""What attention looks at: parity heads, what is lost without them, and the attention tree
(section 4.5, appendix F; Figures 15 and 16, Table 2).

Layers are counted 1..L (layer l writes the residual stream l of the other lenses) and heads from
0; the paper's Table 2 counts layers from 0.

Cost: one forward pass over `examples` sequences that shows its attention maps, in pieces of a
few hundred megabytes, and 26 plain ones over `ablation_examples` sequences for the ablations.
Caveat: see parity_heads.py, attention_tree.py and attention_ablation.py for how the definitions
were read. A model without attention gets a result without rows and a note.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.groups import Quotient
from statetrace.interventions import Site, evaluating
from statetrace.lenses.parts.answers import check_fits, device_of, unlearned
from statetrace.lenses.parts.attention_ablation import Ablation, ablations, correct
from statetrace.lenses.parts.attention_maps import fitting, maps_or_reason, read_maps
from statetrace.lenses.parts.attention_spec import AttentionSpec
from statetrace.lenses.parts.attention_table import AttentionTable, spread
from statetrace.lenses.parts.parity_heads import (
    contrast,
    outside_kernel,
    relabelings,
    score_ceiling,
)
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

__all__ = ["AttentionSpec", "attention", "rank_heads"]


def attention(
    model: Any,
    task: WordProblem,
    spec: AttentionSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Head scores, ablations of the top heads, and attention trees."""
    spec = spec or AttentionSpec()
    last = task.length if spec.last is None else spec.last
    asked = dataclasses.asdict(spec) | {"last": last}
    check_fits(model, task, last)
    sequences, notes = _draw(task, spec, last)
    table = AttentionTable()
    with evaluating(model):
        example = maps_or_reason(model, task, sequences.actions[:1])
        if isinstance(example, str):
            progress(1.0)
            return LensResult("attention", asked, table.columns, notes=(example,))
        quotient = _split(task, spec, last, notes)
        labels = _labels(task, spec, quotient)
        read = read_maps(
            model,
            task,
            spec,
            sequences.actions[: spec.examples],
            labels,
            example,
            progress=lambda share: progress(0.5 * share),
        )
        summary: dict[str, Any] = {"length": last, "quotient": quotient and quotient.name}
        summary["attended"] = table.add_attended(read.attended)
        arrays = read.drawings
        if quotient is not None:
            ranked = rank_heads(read.scores[0])
            top = ranked[: spec.top]
            summary["score_ceiling"] = score_ceiling(spec.first, last)
            summary |= _scores(quotient.name, top, read.scores, table, notes)
            arrays |= {"scores": read.scores[0].astype(np.float32)}
            arrays |= _top_maps(top, example, sequences.actions[0], labels[0])
            summary |= _ablate(
                model,
                task,
                spec,
                sequences[: spec.ablation_examples],
                quotient,
                ranked,
                table,
                notes,
                progress=lambda share: progress(0.5 + 0.5 * share),
            )
        if read.trees is not None:
            summary |= table.add_trees(read.trees)
    progress(1.0)
    return LensResult("attention", asked, table.columns, arrays, summary, tuple(notes))


def rank_heads(scores: np.ndarray) -> list[Site]:
    """All heads by their mean score [L, H, n], best first; equals by layer and head."""
    means = scores.mean(-1)
    order = np.argsort(-means, axis=None, kind="stable")
    found = zip(*np.unravel_index(order, means.shape), strict=True)
    return [Site("head", int(layer) + 1, int(head)) for layer, head in found]


def _draw(task: WordProblem, spec: AttentionSpec, last: int) -> tuple[Sequences, list[str]]:
    wanted = max(spec.examples, spec.ablation_examples if spec.ablation_sizes else 0)
    sequences = task.draw(wanted, spec.seed, last)
    if len(sequences) == wanted:
        return sequences, []
    return sequences, [
        f"{len(sequences)} sequences of length {last} instead of {wanted}: there are no more that "
        "were held out"
    ]


def _split(task: WordProblem, spec: AttentionSpec, last: int, notes: list[str]) -> Quotient | None:
    """The quotient that heads are scored by; None, and a note, where they cannot be."""
    quotient, note = contrast(task, spec.quotient)
    if quotient is not None and last <= spec.first:
        quotient = None
        note = (
            f"no parity-head scores: {last} actions are too few for prefixes of {spec.first} and "
            "more; ask for a smaller first"
        )
    notes += [note] if note else []
    return quotient


def _labels(task: WordProblem, spec: AttentionSpec, quotient: Quotient | None) -> np.ndarray:
    """[labels, order]: which elements count as odd, the true way first; none without quotient."""
    if quotient is None:
        return np.zeros((0, task.group.order), dtype=bool)
    outside = outside_kernel(quotient)
    rng = np.random.default_rng([spec.seed, 1])
    others = relabelings(outside, task.actions, spec.relabelings, rng)
    return np.concatenate((outside[None], others))


def _scores(
    name: str, top: list[Site], scores: np.ndarray, table: AttentionTable, notes: list[str]
) -> dict[str, Any]:
    """Fill the table; for the summary, the top heads, and what the best head gets by chance."""
    table.add_scores("head score", name, scores[0])
    heads = []
    for site in top:
        found = spread(scores[0, site.layer - 1, site.head])
        about = {"layer": site.layer, "head": site.head, "score": found.mean, "std": found.std}
        heads.append(about)
    summary: dict[str, Any] = {"top_heads": heads}
    if len(scores) > 1:
        by_chance = scores[1:].mean(-1)  # [relabelings, L, H]
        table.add_scores("by chance", name, np.moveaxis(by_chance, 0, -1))
        best, expected = float(scores[0].mean(-1).max()), float(by_chance.max((1, 2)).mean())
        summary["top_score_by_chance"] = expected
        if best <= expected:
            notes.append(
                f"no head stands out: the best one scores {best:.1f}% for {name}, "
                f"and {expected:.1f}% is what the best head scores for an arbitrary choice of as "
                "many actions"
            )
    return summary


def _top_maps(
    top: list[Site], example: Tensor, actions: np.ndarray, outside: np.ndarray
) -> dict[str, np.ndarray]:
    """For the figure: the maps of the top heads for the first example, and its odd actions."""
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
    """Fill the table and the notes; for the summary, what is lost with each set of heads."""
    sizes = [size for size in spec.ablation_sizes if size <= len(ranked)]
    if anatomy(model).attention_projection is None:
        sizes = []
        notes.append(
            f"no ablations: where {model.config.model_type!r} models join their heads is not "
            "known; a file in statetrace/models/families would say"
        )
    elif len(sizes) < len(spec.ablation_sizes):
        notes.append(f"ablations of at most {len(ranked)} heads: the model has no more")
    if not sizes:
        return {}
    vocabulary, width = model.get_output_embeddings().weight.shape
    # Logits twice (as they come, and in float32), and some activations of a block.
    each = 4 * task.vocabulary.tokens(sequences.length) * (2 * vocabulary + 16 * width)
    batch = min(512, fitting(each, device_of(model)))
    intact = correct(model, task, sequences, quotient, batch)
    accuracy = table.add_answers("none", None, intact)
    trouble = unlearned(accuracy["state"], task.group.order, f"up to length {sequences.length}")
    notes += [f"{trouble}, so ablations have little to lose"] if trouble else []
    rng = np.random.default_rng([spec.seed, 2])
    found = ablations(
        model, task, sequences, quotient, ranked, sizes, spec.controls, rng, batch, progress
    )
    lost = []
    for one in found:
        heads = f"{one.kind} {one.size}"
        table.add_answers(heads, one.method, one.right)
        drop = table.add_drop(heads, one.method, intact, one.right)
        lost.append({"heads": heads, "method": one.method, "drop": drop})
    notes += _about_controls(found, spec.controls)
    return {"accuracy": accuracy, "ablation": lost}


def _about_controls(found: list[Ablation], controls: int) -> list[str]:
    """Sentences for ablations whose control is missing or is not from the same layers."""
    layers = {
        (one.kind, one.size): {tuple(sorted(site.layer for site in heads)) for heads in one.sets}
        for one in found
    }
    missing, elsewhere = [], []
    for size in sorted({one.size for one in found}):
        if ("control", size) not in layers:
            missing.append(str(size))
        elif layers["control", size] != layers["top", size]:
            elsewhere.append(str(size))
    notes = []
    if missing and controls:
        notes.append(f"no control for ablations of size {', '.join(missing)}: too few other heads")
    if elsewhere:
        notes.append(
            f"controls for ablations of size {', '.join(elsewhere)} come in part from other "
            "layers: the top heads leave too few in their own"
        )
    return notes
