"""What attention looks at: parity heads, what is lost without them, and the attention tree
(section 4.5, appendix F; Figures 9 and 10, Table 2).

Layers are counted 1..L (layer l writes the residual stream l of the other lenses) and heads from
0; the paper's Table 2 counts layers from 0.

Cost: one forward pass over `examples` sequences that shows its attention maps, in pieces of a
few hundred megabytes, and about twenty plain ones over `ablation_examples` for the ablations.
Caveat: see parity_heads.py, attention_tree.py and attention_ablation.py for how the definitions
were read. A model without attention gets a result without rows and a note.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.interventions import Site, evaluating
from statetrace.lenses.answers import check_fits, device_of
from statetrace.lenses.attention_ablation import Ablation, ablations, correct
from statetrace.lenses.attention_maps import fitting, for_each_piece, maps_or_reason
from statetrace.lenses.attention_table import AttentionTable, spread
from statetrace.lenses.attention_tree import TreeMeasures, attention_trees
from statetrace.lenses.parity_heads import contrast, head_scores, outside_kernel, score_ceiling
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class AttentionSpec:
    """What to measure."""

    examples: int = 100
    """Sequences whose attention maps are read."""
    first: int = 5
    """The shortest prefix that counts in a head's score."""
    last: int | None = None
    """Length of the sequences; by default the task's (the paper: 80 for S3, 50 for S5)."""
    quotient: str = "parity"
    """Heads are scored by their attention to actions outside its kernel (for parity: odd)."""
    confidence: float = 0.95
    """Level of the confidence interval in the score."""
    margin: float = 0.95
    """What the interval's half-width is multiplied with, as in the paper's formula; 1 for the
    plain interval."""
    top: int = 3
    """Heads in the summary, with their attention maps of one example."""
    ablation_sizes: tuple[int, ...] = (1, 2, 3)
    """Take out this many of the top heads; () for no ablations."""
    ablation_examples: int = 256
    """Sequences that are answered without them."""
    controls: int = 3
    """Random sets of other heads to compare each ablation with."""
    weight: float = 0.95
    """Attention tree: edges are heavier than this,"""
    top_target: int = 3
    """and among this many heaviest from their target,"""
    top_source: int = 10
    """and among this many heaviest to their source."""
    tree_examples: int | None = None
    """Sequences whose trees are measured; by default all `examples`."""
    tree_saved: int = 3
    """Trees whose edges are saved for drawing."""
    seed: int = 0

    def __post_init__(self) -> None:
        least = dict.fromkeys(("examples", "first", "top", "ablation_examples"), 1)
        least |= {"controls": 0, "top_target": 1, "top_source": 1, "tree_saved": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise StatetraceError(
                    f"{name} {getattr(self, name)} is too small; use {lowest} or more"
                )
        if self.last is not None and self.last <= self.first:
            raise StatetraceError(
                f"last {self.last} must be greater than first {self.first}, the shortest prefix"
            )
        if not 0 < self.confidence < 1:
            raise StatetraceError(f"confidence {self.confidence} must lie between 0 and 1")
        if self.margin < 0:
            raise StatetraceError(f"margin {self.margin} is negative; use 0 or more")
        if not 0 <= self.weight < 1:
            raise StatetraceError(f"weight {self.weight} must be at least 0 and below 1")
        if any(size < 1 for size in self.ablation_sizes):
            raise StatetraceError(
                f"ablation_sizes {self.ablation_sizes} must be whole numbers from 1 up"
            )
        if self.tree_examples is not None and not 0 <= self.tree_examples <= self.examples:
            raise StatetraceError(
                f"tree_examples {self.tree_examples} must lie between 0 and examples "
                f"({self.examples})"
            )


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
        read = _Reading(task, spec, sequences[: spec.examples], quotient, example)
        read.all_of(model, lambda share: progress(0.5 * share))
        summary: dict[str, Any] = {"length": last, "quotient": quotient and quotient.name}
        arrays = read.drawings
        if quotient is not None:
            table.add_scores(quotient.name, read.scores)
            ranked = rank_heads(read.scores)
            arrays |= {"scores": read.scores.astype(np.float32)}
            arrays |= _top_maps(ranked[: spec.top], example, sequences.actions[0], quotient)
            summary["score_ceiling"] = score_ceiling(spec.first, last)
            summary["top_heads"] = _top_heads(ranked[: spec.top], read.scores)
            part = sequences[: spec.ablation_examples]
            summary |= _ablate(
                *(model, task, spec, part, quotient, ranked, table, notes),
                progress=lambda share: progress(0.5 + 0.5 * share),
            )
        if read.trees:
            summary |= table.add_trees(read.measures())
    progress(1.0)
    return LensResult("attention", asked, table.columns, arrays, summary, tuple(notes))


def rank_heads(scores: np.ndarray) -> list[Site]:
    """All heads by their mean score [L, H, n], best first; equals by layer and head."""
    means = scores.mean(-1)
    order = np.argsort(-means, axis=None, kind="stable")
    found = zip(*np.unravel_index(order, means.shape), strict=True)
    return [Site("head", int(layer) + 1, int(head)) for layer, head in found]


class _Reading:
    """Scores and trees of every example, from maps that come in pieces."""

    def __init__(
        self,
        task: WordProblem,
        spec: AttentionSpec,
        sequences: Sequences,
        quotient: Quotient | None,
        example: Tensor,
    ) -> None:
        self.task, self.spec, self.actions = task, spec, sequences.actions
        layers, _, heads, _, _ = example.shape
        self.map_bytes = 4 * example.numel()
        self.scores = np.zeros((layers, heads, len(sequences)))  # percent
        self.outside = None
        if quotient is not None:
            self.outside = torch.from_numpy(outside_kernel(quotient)[self.actions])  # [n, T]
        wanted = len(sequences) if spec.tree_examples is None else spec.tree_examples
        self.n_trees = min(wanted, len(sequences))
        self.trees: dict[int, TreeMeasures] = {}  # by the first example of the piece
        self.drawings: Arrays = {}

    def all_of(self, model: Any, progress: Progress) -> None:
        for_each_piece(model, self.task, self.actions, self.map_bytes, self._piece, progress)

    def _piece(self, start: int, maps: Tensor) -> None:
        spec, stop = self.spec, start + maps.shape[1]
        if self.outside is not None:
            outside = self.outside[start:stop].to(maps.device)
            for layer, weights in enumerate(maps):
                found = head_scores(weights, outside, spec.first, spec.margin, spec.confidence)
                self.scores[layer, :, start:stop] = found.T.cpu().numpy()
        if start >= self.n_trees:
            return
        maps = maps[:, : self.n_trees - start]
        trees = attention_trees(maps, spec.weight, spec.top_target, spec.top_source)
        self.trees[start] = trees.measures()
        for i in range(start, min(stop, self.n_trees, spec.tree_saved)):
            edges, weights = trees.drawing(i - start)
            self.drawings[f"tree{i}_edges"], self.drawings[f"tree{i}_weights"] = edges, weights
            self.drawings[f"tree{i}_actions"] = self.actions[i].astype(np.int32)

    def measures(self) -> TreeMeasures:
        """Of all trees together."""
        pieces = [self.trees[start] for start in sorted(self.trees)]
        names = [field.name for field in dataclasses.fields(TreeMeasures)]
        together = {name: np.concatenate([getattr(p, name) for p in pieces]) for name in names}
        return TreeMeasures(**together)


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


def _top_heads(top: list[Site], scores: np.ndarray) -> list[dict[str, Any]]:
    found = []
    for site in top:
        score = spread(scores[site.layer - 1, site.head])
        about = {"layer": site.layer, "head": site.head, "score": score.mean, "std": score.std}
        found.append(about)
    return found


def _top_maps(top: list[Site], example: Tensor, actions: np.ndarray, quotient: Quotient) -> Arrays:
    """For the figure: the maps of the top heads for the first example, and its odd actions."""
    maps = [example[site.layer - 1, 0, site.head] for site in top]
    return {
        "top_maps": torch.stack(maps).float().cpu().numpy(),  # [top, T, T]
        "top_maps_heads": np.array([(s.layer, s.head) for s in top], dtype=np.int32),
        "top_maps_actions": actions.astype(np.int32),  # [T]
        "top_maps_odd": outside_kernel(quotient)[actions],  # [T], bool
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
    logits = sequences.length * int(model.get_output_embeddings().weight.shape[0])
    batch = min(512, fitting(8 * logits, device_of(model)))
    intact = correct(model, task, sequences, quotient, batch)
    accuracy = table.add_answers("none", None, intact)
    if accuracy["state"] < 2 / task.group.order:
        notes.append(
            f"the model has not learned the task: {accuracy['state']:.1%} of its answers are "
            f"right, {1 / task.group.order:.1%} would be by chance, so there is little to lose"
        )
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
    sizes = sorted({one.size for one in found})
    missing = [size for size in sizes if ("control", size) not in layers]
    elsewhere = [
        size
        for size in sizes
        if size not in missing and layers["control", size] != layers["top", size]
    ]
    notes = []
    if missing and controls:
        notes.append(f"no control for ablations of {_listed(missing)}: there are no other heads")
    if elsewhere:
        notes.append(
            f"the controls for ablations of {_listed(elsewhere)} come in part from other layers: "
            "the top heads leave too few in their own"
        )
    return notes


def _listed(sizes: list[int]) -> str:
    return " and ".join([", ".join(map(str, sizes[:-1]))] * (len(sizes) > 1) + [str(sizes[-1])])
