"""What the calibration keeps of a model: the links and errors that a verdict weighs.

A row is plain JSON, from which `read` makes the same map as a verdict does, so that weights can be
fitted and evaluated without the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from statetrace.groups import Group, group
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.cutoff_verdict import read_cutoffs
from statetrace.mechanisms.links import DEPENDENT, Link, links_of
from statetrace.mechanisms.mastery import by_length
from statetrace.mechanisms.mechanism_map import MechanismMap, Weights
from statetrace.mechanisms.verdict import kept_by_quotient

Row = dict[str, Any]


def summary(results: Mapping[str, LensResult]) -> Row:
    """The part of a row that is measured; links are None for a model that has not learned."""
    general = results["generalization"]
    row: Row = {"fast": read_cutoffs(general), "links": None, "kept": {}}
    if "depth" in results:
        links = links_of(results["depth"])
        row["links"] = [_plain(link) | _sampling(results["depth"], link) for link in links]
        quotients = [link.name for link in links[:-1]]
        row["kept"] = kept_by_quotient(general, quotients)
        row["sequences"] = int(min(general.columns["n"]))
        row["accuracy_by_length"] = {
            what: [round(float(x), 4) for x in by_length(general, what)]
            for what in ("state", *quotients)
        }
    return row


def read(row: Row, weights: Weights | None = None) -> MechanismMap:
    return MechanismMap.of(links(row), row["kept"], weights)


def links(row: Row) -> tuple[Link, ...]:
    return tuple(_link(link) for link in row["links"])


def _link(fields: Row) -> Link:
    known = {f.name: fields[f.name] for f in dataclasses.fields(Link)}
    arrays = {name: np.array(fields[name]) for name in ("lengths", "needed")}
    exact = fields.get("sampling")  # older rows have the error as if layers were independent
    arrays["error"] = DEPENDENT * np.array(fields["error"]) if exact is None else np.array(exact)
    return Link(**(known | arrays))


def _sampling(depth: LensResult, link: Link) -> Row:
    """The standard error over pairs of the layers needed."""
    split = depth.summary["links"][link.name]
    pairs = {row["length"]: row["n"] for row in depth.rows() if row["split"] == split}
    deviations = zip(depth.summary["lengths"], depth.summary["deviation"][split], strict=True)
    known = [d / np.sqrt(pairs[length]) for length, d in deviations if d is not None]
    return {"sampling": [round(float(x), 4) for x in known]}


@cache
def _group(name: str) -> Group:
    return group(name)


def group_of(row: Row) -> Group:
    return _group(row["group"])


def _plain(link: Link) -> Row:
    fields = {f.name: getattr(link, f.name) for f in dataclasses.fields(link)}
    return {
        name: [round(float(x), 4) for x in value] if isinstance(value, np.ndarray) else value
        for name, value in fields.items()
    } | {"soft": round(link.soft, 4), "split": round(link.split, 4)}
