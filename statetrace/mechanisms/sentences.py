"""The sentences of a verdict, and the map as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statetrace.mechanisms import distances
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.links import Link
from statetrace.mechanisms.mechanism_map import DECIDED, MIXED, OTHER, MechanismMap

EVEN = 0.5
"""From this probability on a quotient is said to be computed on its own, and the report states a
property."""

LEAD = 0.125
"""Of the possible maximum: a larger lead in training means that parity was learned first. It was
0.19 or more in all 111 parity-associative models of the studies, and 0.05 or less in 50 of the 55
associative ones."""


def verdict(names: Sequence[str], probabilities: Mapping[str, float], read: MechanismMap) -> str:
    """What the model does, in words. `names` are the possible mechanisms, likeliest first."""
    best = names[0]
    if best == MIXED:
        says = "two computations share the answer: in some layers each holds a part of the logits"
    elif best == OTHER:
        says = f"no known algorithm: the model {_stages(read)}"
    else:
        says = f"the model {_stages(read)}"
    says += f", at lengths 2 to {read.length}"
    if len(names) == 1:
        return says
    *others, last = (f"{name} ({probabilities[name]:.0%})" for name in names)
    return f"{', '.join(others)} or {last}; {says}"


def _stages(read: MechanismMap) -> str:
    """ "counts parity (layer 1), then composes the rest (layers 2 to 5)"."""
    stages: list[list[int]] = [[0]]
    for number, own in enumerate(read.own, start=1):
        if own >= EVEN:
            stages.append([])
        stages[-1].append(number)
    phrases = []
    for stage in stages:
        members = [read.links[number] for number in stage]
        last, grows = members[-1], max(read.grows[number] for number in stage)
        verb = "counts or composes"
        if grows >= DECIDED:
            verb = "composes"
        elif grows <= 1 - DECIDED:
            verb = "counts"
        if last.name != "state":
            what = last.name
        else:
            what = "the state as a whole" if len(stages) == 1 else "the rest"
        end = max(one.last for one in members)
        layers = min(one.first for one in members) if verb != "counts" else end, end
        phrases.append(f"{verb} {what} ({_layers(*layers)})")
    return ", then ".join(phrases)


def _layers(first: int, last: int) -> str:
    return f"layer {last}" if first >= last else f"layers {first} to {last}"


def depth(read: MechanismMap) -> str:
    parts = []
    for link in read.links:
        slope, error = link.growth
        says = f"{link.name} needs {min(link.needed):.1f} to {max(link.needed):.1f} layers"
        if len(link.lengths) > 1:
            says += f" ({slope:+.2f} ± {error:.2f} per doubling of the length)"
        parts.append(says)
    return "; ".join(parts)


def generalization(read: MechanismMap, evidence: Evidence) -> str:
    parts = [evidence.cutoffs]
    for boundary in read.boundaries:
        if boundary.kept is None:
            parts.append(f"too few wrong answers to see whether {boundary.quotient} survives")
        else:
            parts.append(
                f"where the state is wrong, {boundary.quotient} is {_often(boundary.kept)} "
                f"({boundary.kept:.2f}, where 0 is chance and 1 is always)"
            )
    return "; ".join(parts)


def _often(kept: float) -> str:
    if kept > 0.75:
        return "mostly correct"
    return "correct more often than by chance" if kept > 0.25 else "correct as often as by chance"


def nearest(lens: str, by_name: Mapping[str, float]) -> str:
    """What a lens that is not weighed would say."""
    ranked = sorted(by_name, key=lambda name: by_name[name])
    unit = " layers" if lens == "depth" else ""
    listed = [f"{name} ({by_name[name]:.2f})" for name in ranked[:2]]
    listed[0] = f"{ranked[0]} (distance {by_name[ranked[0]]:.2f}{unit})"
    return f"as a check: nearest to {', then '.join(listed)}"


def reported(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Lenses that are reported and not weighed."""
    parts: dict[str, dict[str, Any]] = {}
    if evidence.head is not None:
        parts["attention"] = {"says": _attention(evidence)}
    if evidence.lead is not None:
        order = "before" if evidence.lead > LEAD else "together with"
        says = (
            f"{evidence.quotient} was learned {order} the state (lead {evidence.lead:z.2f} of the "
            "possible maximum)"
        )
        parts["dynamics"] = {"lead": round(evidence.lead, 4), "says": says}
    return parts


def _attention(evidence: Evidence) -> str:
    assert evidence.head is not None
    score, chance, lost = evidence.head
    name = evidence.quotient
    clear = "this is one" if score - chance >= distances.HEAD else "this is not one"
    return (
        f"best {name} head: score {score / 100:.2f} (chance {chance / 100:.2f}; a clear {name} "
        f"head is {distances.HEAD / 100:.2f} above chance: {clear}); "
        + ablation(str(name), lost, evidence.control)
    )


def ablation(quotient: str, lost: float, control: float | None) -> str:
    """What the accuracy lost without the best head shows, next to that lost without a random one:
    the model needs the head if the loss is large and at least half of it is beyond the control."""
    text = f"with its output set to its mean, {quotient} accuracy drops by {lost:z.2f}"
    if control is None:
        return text
    needed = lost >= distances.LOST and lost >= 2 * control
    reading = "the model needs this head" if needed else "this does not show that it is needed"
    return f"{text} (with a random head's: {control:z.2f}), so {reading}"


def links(read: MechanismMap, evidence: Evidence) -> list[dict[str, Any]]:
    """The map: a row per link."""
    return [_row(read, number, link, evidence) for number, link in enumerate(read.links)]


def _row(read: MechanismMap, number: int, link: Link, evidence: Evidence) -> dict[str, Any]:
    slope, error = link.growth
    row: dict[str, Any] = {
        "link": link.name,
        "lengths": [int(n) for n in link.lengths],
        "layers_needed": [round(float(layers), 3) for layers in link.needed],
        "layers": [link.first, link.last],
        "growth": round(slope, 4),
        "growth_error": round(error, 4) if len(link.lengths) > 1 else None,
        "composed": round(read.grows[number], 4),
        "own": round(read.own[number], 4) if number < len(read.own) else None,
    }
    if link.name == evidence.quotient and evidence.lead is not None:
        row["learned"] = "before" if evidence.lead > LEAD else "together"
    return row
