"""Which part of the residual stream carries a quotient of the state, such as parity.

For each layer a subspace is determined, and only the component inside it is exchanged between the
runs of two independent sequences, base and source. If the subspace carries the quotient and nothing
else, the answer has the source's value of the quotient and the base's rest (groups/sections.py).
The share of such answers among pairs with different values is the interchange accuracy. Patching
overwrites whole activations, so it cannot separate the two.

- `means`: the span of the differences of class means; it has a dimension less than the quotient has
  values.
- `das`: a basis learned by interchange interventions (distributed alignment search), starting from
  the means.

Means, bases and the choice of the section use one half of the sequences, all numbers the other.
Controls: random subspaces of the same dimension, and the model with untrained weights. For
comparison also the whole residual stream (method `all`) and everything outside of the subspace
(control `complement`) are exchanged.

Cost: `steps` gradient steps per layer over `batch` pairs, twice with the untrained model, and about
25 exchanges per layer over all pairs; with positions = last each computes one position per pair. A
6-layer, width-128 model at length 24: one to four minutes on one core.
Caveat: the answer may be assembled from several positions in later layers. Exchanging the last one
is then not enough, and exchanging all of them (positions = prefix) gives every position the value
of its own source state, which also changes what later layers compute from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.groups.sections import sections
from statetrace.lenses.partial import part
from statetrace.lenses.parts.activations import chosen_layers, residuals
from statetrace.lenses.parts.answers import answers, check_fits, device_of, low_accuracy
from statetrace.lenses.parts.interchange import Interchanges, best_section, outcome_rows, pair_up
from statetrace.lenses.parts.probing_data import untrained_twin
from statetrace.lenses.parts.subspaces import learned_basis, means_basis, random_basis
from statetrace.lenses.result import LensResult, Progress, no_progress, part_of
from statetrace.lenses.specs import SubspaceSpec
from statetrace.models import anatomy
from statetrace.models.predict import evaluating
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem


def subspace(
    model: Any,
    task: WordProblem,
    spec: SubspaceSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """A row per quotient, layer, method, control, kind of pairs and outcome (parts/interchange.py):
    its share with Wilson's 95% interval. The bases are arrays QUOTIENT.METHOD [layers, D, k]."""
    spec = spec or SubspaceSpec()
    length = task.length if spec.length is None else spec.length
    check_fits(model, task, length)
    quotients = task.quotients(spec.quotients)[: None if spec.quotients else 1]
    if not quotients:
        raise StatetraceError(f"{task.group.name} has no quotient, so no subspace can carry one")
    drawn = task.draw(spec.sequences, spec.seed, length)
    models = {"none": model}
    if "untrained" in spec.controls:
        models["untrained"] = untrained_twin(model, spec.seed)
    clean = {name: answers(each, task, drawn)[:, -1] for name, each in models.items()}
    usable = np.flatnonzero(clean["none"] == drawn.states[:, -1])
    columns: dict[str, list[Any]] = {}
    arrays: dict[str, np.ndarray] = {}
    summary: dict[str, Any] = {"length": length, "accuracy": len(usable) / len(drawn)}
    notes: list[str] = []
    parts = [(quotient, control) for quotient in quotients for control in models]
    for number, (quotient, control) in enumerate(parts):
        share = part_of(progress, number / len(parts), (number + 1) / len(parts))
        with evaluating(models[control]):
            measured = _Measurement(models[control], task, spec, drawn, quotient, control)
            rows = measured.rows(usable, clean[control], share)
        for row in rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        if control == "none":
            for method, bases in measured.bases.items():
                stacked = torch.stack(list(bases.values()))
                arrays[f"{quotient.name}.{method}"] = stacked.cpu().numpy()
            summary[quotient.name] = measured.summary(rows)
            notes += measured.notes()
    consequence = "; only pairs of correct answers are used"
    notes += low_accuracy(summary["accuracy"], task.group.order, f"at length {length}", consequence)
    settings = dataclasses.asdict(spec) | {"length": length}
    return LensResult("subspace", settings, columns, arrays, summary, tuple(notes))


class _Swap(NamedTuple):
    """What to exchange; several bases are the draws of a control, None is the whole space."""

    layer: int
    method: str
    control: str
    bases: tuple[Tensor | None, ...]


@dataclass
class _Measurement:
    """One model and one quotient. `control` is "untrained" for the control, else "none"."""

    model: Any
    task: WordProblem
    spec: SubspaceSpec
    drawn: Sequences
    quotient: Quotient
    control: str

    def __post_init__(self) -> None:
        self.device, self.width = device_of(self.model), anatomy(self.model).width
        self.layers = chosen_layers(self.spec.layers, anatomy(self.model).layers)
        self.sections = sections(self.task.group, self.quotient)
        self.image = torch.from_numpy(self.quotient.map.astype(np.int64)).to(self.device)
        self.dimension = self.spec.dimension or self.quotient.image.order - 1
        self.tokens = self.task.encode(self.drawn.actions, self.device)
        self.start = self.tokens.shape[1] - 1 if self.spec.positions == "last" else 0
        self.bases: dict[str, dict[int, Tensor]] = {}

    def rows(
        self, usable: np.ndarray, clean: np.ndarray, progress: Progress
    ) -> list[dict[str, Any]]:
        """The table, from the `usable` sequences; `clean` are the answers to all."""
        rng = np.random.default_rng([self.spec.seed, len(self.drawn)])
        to_fit, to_test = np.array_split(usable, 2)
        pairs = partial(pair_up, self.tokens, self.drawn.states[:, -1], clean, self.quotient, rng)
        fit, self.test = pairs(to_fit, self.spec.train), pairs(to_test, self.spec.pairs)
        self.bases["means"] = self._means(to_fit)
        if "das" in self.spec.methods:
            self.bases["das"] = self._learned(fit, progress)
        swaps, rows = list(self._swaps()), []
        answered = zip(
            swaps, self._answers(fit, swaps), self._answers(self.test, swaps), strict=True
        )
        for swap, fitted, tested in answered:
            section = best_section(fit, fitted, self.sections)
            about = {"quotient": self.quotient.name, "layer": swap.layer, "method": swap.method}
            about |= {"control": swap.control, "section": "" if section is None else section.name}
            rows += [about | row for row in outcome_rows(self.test, tested, section)]
        progress(1.0)
        return rows

    def _means(self, rows: np.ndarray) -> dict[int, Tensor]:
        vocabulary = self.task.vocabulary
        actions = np.arange(self.drawn.length)[-1 if self.start else 0 :]
        at = vocabulary.tokens(1) - 1 + vocabulary.stride * actions
        stream = residuals(self.model, self.tokens[rows], at.tolist())
        states = torch.from_numpy(self.drawn.states[rows][:, actions].astype(np.int64))
        states = states.to(self.device)
        return {layer: means_basis(stream[layer], states, self.image) for layer in self.layers}

    def _learned(self, pairs: Interchanges, progress: Progress) -> dict[int, Tensor]:
        """Without sections, any answer with the source's value is aimed at."""
        spec, bases = self.spec, {}
        batches = list(pairs.exchanges(self.model, self.start, spec.batch))
        goals = torch.from_numpy(pairs.targets(self.sections)).to(self.device)
        examples = [(exchange, goals[:, rows]) for rows, exchange in batches]
        cosets = torch.nn.functional.one_hot(self.image).bool()

        def read(logits: Tensor) -> Tensor:
            logits = self._of_elements(logits)
            if self.sections:
                return logits
            return logits[..., None].masked_fill(~cosets, -torch.inf).logsumexp(-2)

        for done, layer in enumerate(self.layers, start=1):
            random = random_basis(self.width, self.dimension, (spec.seed, layer), self.device)
            start = torch.cat((self.bases["means"][layer], random), dim=1)[:, : self.dimension]

            def learn(layer: int = layer, start: Tensor = start) -> dict[str, np.ndarray]:
                basis = learned_basis(examples, layer, start, spec.steps, spec.rate, read)
                return {"basis": basis.cpu().numpy()}

            kept = part(f"{self.quotient.name}-{self.control}-{layer}", learn)
            bases[layer] = torch.from_numpy(kept["basis"]).to(self.device)
            progress(0.8 * done / len(self.layers))
        return bases

    def _swaps(self) -> Iterator[_Swap]:
        for layer in self.layers:
            chosen = [(method, self.bases[method][layer]) for method in self.spec.methods]
            yield from (_Swap(layer, method, self.control, (basis,)) for method, basis in chosen)
            if self.control == "untrained":
                continue
            yield from (_Swap(layer, method, "complement", (basis,)) for method, basis in chosen)
            yield _Swap(layer, "all", "none", (None,))
            if "random" in self.spec.controls:
                seeds = [(self.spec.seed, layer, 1 + draw) for draw in range(self.spec.draws)]
                bases = [random_basis(self.width, self.dimension, s, self.device) for s in seeds]
                yield _Swap(layer, "random", "random", tuple(bases))

    def _answers(self, pairs: Interchanges, swaps: Sequence[_Swap]) -> list[np.ndarray]:
        """For each swap [draws, P]."""
        batches: list[list[np.ndarray]] = [[] for _ in swaps]
        for _, exchange in pairs.exchanges(self.model, self.start, self.spec.batch):
            for swap, batch in zip(swaps, batches, strict=True):
                outside = swap.control == "complement"
                logits = [exchange.logits(swap.layer, basis, outside) for basis in swap.bases]
                batch.append(self._of_elements(torch.stack(logits)).argmax(-1).cpu().numpy())
        return [np.concatenate(batch, axis=1) for batch in batches]

    def _of_elements(self, logits: Tensor) -> Tensor:
        return logits[..., torch.as_tensor(self.task.vocabulary.elements, device=logits.device)]

    def summary(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Interchange accuracy by method and layer."""
        wanted = {"pairs": "different", "outcome": "interchange"}
        accuracy: dict[str, list[float]] = {}
        for row in rows:
            if wanted.items() <= row.items() and row["control"] != "complement":
                accuracy.setdefault(row["method"], []).append(round(row["share"], 4))
        summary = {"pairs": int(self.test.different.sum()), "layers": list(self.layers)}
        return summary | {"interchange_accuracy": accuracy}

    def notes(self) -> list[str]:
        notes = []
        if not self.sections:
            notes.append(
                f"the kernel of {self.quotient.name} in {self.task.group.name} has no complement, "
                "so no rest is defined, and only the value of the quotient is compared"
            )
        if len(self.test.base) < self.spec.pairs:
            notes.append(
                f"{len(self.test.base)} pairs instead of {self.spec.pairs}: raise sequences, or "
                "use a length that the model solves"
            )
        return notes
