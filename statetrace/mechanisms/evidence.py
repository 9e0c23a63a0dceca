"""Evidence: the measurements of the lenses on one model, in the form that the verdict compares.

Needs lens results only, no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.mastery import NEEDED, by_length, cutoff_sentence

Array = NDArray[np.float64]

PREFIX_GRID = "prefix-substitution-resid"
"""The heat map of the patching lens that a verdict reads."""


@dataclass(frozen=True)
class Evidence:
    """Attributes:
    order: elements of the group.
    unknown: states that remain possible when the first quotient (parity, where there is one) is
        known.
    quotient: its name, or None.
    length: actions per sequence under patching and probing.
    restored: split -> [layers + 1, T]: probability of the clean answer after patching a prefix,
        relative to the clean run. Splits: "same" and "opposite", or "all" for groups without a
        quotient.
    depths: [m] lengths whose depth was measured.
    settled: split -> [layers + 1, m]: share of the answer that is settled in the last token.
    lengths: [n] lengths that were probed.
    state, parity: [layers + 1, n] probability that probes give to the true class; None where it was
        not probed. (Accuracy would mislead where nothing is readable: a probe then follows
        chance imbalances of its training set, and its accuracy scatters widely around chance.)
    cutoffs: of the state and the quotients, as a phrase.
    accuracy: "state" and the quotient -> accuracy by length, [longest].
    sequences: the number of sequences these are measured on.
    trained: the training length.
    head: score of the best parity head, score of random sets of actions, and the parity accuracy
        lost with its output set to its mean; or None.
    lead: of parity over the state in training, as a share of the possible maximum; or None.
    control: the parity accuracy lost with the output of a random head set to its mean; or None.
    """

    order: int
    unknown: int
    quotient: str | None
    length: int
    restored: Mapping[str, Array]
    depths: Array
    settled: Mapping[str, Array]
    lengths: Array
    state: Array | None
    parity: Array | None
    cutoffs: str
    accuracy: Mapping[str, Array]
    sequences: int
    trained: int
    head: tuple[float, float, float] | None
    lead: float | None
    control: float | None = None

    @staticmethod
    def of(results: Mapping[str, LensResult], group: Group) -> Evidence:
        """From results of generalization and depth; the others are optional."""
        for lens in NEEDED:
            if lens not in results:
                raise StatetraceError(f"a verdict needs the lens '{lens}', which has no result")
        quotient = first_quotient(group)
        name = None if quotient is None else quotient.name
        kinds = ["state"] if name is None else ["state", name]
        general = results["generalization"]
        probing = results["probing"].arrays if "probing" in results else {}
        patching = results.get("patching")
        lengths = results["depth"].summary["lengths"]
        return Evidence(
            order=group.order,
            unknown=group.order if quotient is None else len(quotient.kernel),
            quotient=name,
            length=max(lengths),
            restored={} if patching is None else _restored(patching, name),
            depths=np.array(lengths, dtype=np.float64),
            settled=_settled(results["depth"], name),
            lengths=np.asarray(probing.get("lengths", ()), dtype=np.float64),
            state=_probabilities(probing, "state"),
            parity=_probabilities(probing, name),
            cutoffs=cutoff_sentence(general),
            accuracy={kind: by_length(general, kind) for kind in kinds},
            sequences=int(min(general.columns["n"])),
            trained=int(general.summary["training_length"]),
            head=_head(results.get("attention"), name),
            lead=_lead(results.get("dynamics"), name),
            control=next(iter(_lost(results.get("attention"), name, "control 1")), None),
        )


def _probabilities(probing: Mapping[str, Array], target: str | None) -> Array | None:
    values = probing.get(f"{target}/none/probability")
    return None if values is None else np.asarray(values, dtype=np.float64)


def first_quotient(group: Group) -> Quotient | None:
    """The quotient that a model might compute first: parity, or for groups without parity their
    first quotient."""
    if group.parity is not None and group.order > 2:
        return group.quotient("parity")
    try:
        return next(iter(group.quotients()), None)
    except StatetraceError:  # too many to list
        return None


def _restored(patching: LensResult, quotient: str | None) -> dict[str, Array]:
    metric = "probability" if "probability" in patching.columns["metric"] else "nld"
    site = {"where": "prefix", "what": "substitution", "kind": "resid", "metric": metric}
    splits = {"all": "all"} if quotient is None else splits_of(quotient)
    if not patching.grid(**site).size:
        raise StatetraceError(
            f"the patching result has no grid '{PREFIX_GRID}', which a verdict needs; run the lens "
            "again with that grid"
        )
    restored = {}
    for short, name in splits.items():
        grid = patching.grid(**site, split=name)
        if grid.size and not np.isnan(grid).any():
            whole = np.maximum(grid[:, -1:], 1e-6)  # patching the whole prefix gives the clean run
            restored[short] = np.clip(grid / whole, 0.0, 1.0)
    return restored


def _settled(depth: LensResult, quotient: str | None) -> dict[str, Array]:
    lengths = depth.summary["lengths"]
    splits = {"all": "all"} if quotient is None else splits_of(quotient)
    settled = {}
    for short, name in splits.items():
        rows = [row for row in depth.rows() if row["split"] == name and row["mean"] is not None]
        if len({row["length"] for row in rows}) == len(lengths):
            grid = np.zeros((max(row["layer"] for row in rows) + 1, len(lengths)))
            for row in rows:
                grid[row["layer"], lengths.index(row["length"])] = 1.0 - row["mean"]
            settled[short] = grid
    return settled


def splits_of(quotient: str) -> dict[str, str]:
    """Short names of the splits of pairs by a quotient -> their names in lens results."""
    if quotient == "parity":
        return {"same": "same parity", "opposite": "opposite parity"}
    return {"same": f"same {quotient}", "opposite": f"different {quotient}"}


def _head(attention: LensResult | None, quotient: str | None) -> tuple[float, float, float] | None:
    if attention is None or quotient is None or attention.summary.get("quotient") != quotient:
        return None
    heads = attention.summary.get("top_heads") or []
    chance = attention.summary.get("top_score_by_chance")
    lost = _lost(attention, quotient, "top 1")
    if not heads or chance is None or not lost:
        return None
    return float(heads[0]["score"]), float(chance), float(lost[0])


def _lost(attention: LensResult | None, quotient: str | None, heads: str) -> list[float]:
    """Accuracy lost with the output of these heads set to its mean; empty if not measured."""
    ablations = [] if attention is None else attention.summary.get("ablation") or []
    return [
        float(entry["drop"][quotient])
        for entry in ablations
        if entry["heads"] == heads and entry["method"] == "mean" and quotient in entry["drop"]
    ]


def _lead(dynamics: LensResult | None, quotient: str | None) -> float | None:
    if dynamics is None or quotient is None:
        return None
    lead = dynamics.summary.get("lead", {}).get(quotient)
    return None if lead is None else float(lead["share"])
