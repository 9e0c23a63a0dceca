"""Accuracy with and without some heads, on one sequence or many.

Cost: two forward passes over the sequences; for "mean", a third over others for the means.
Caveat: zeros are far from anything that later layers have seen; where zero and mean disagree, trust
the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.inspection.probes import targets_of
from statetrace.inspection.query import HEAD, INSTEAD, names_of, parse_places
from statetrace.inspection.sequences import ManyActions, parse_sequences
from statetrace.inspection.session import head_means
from statetrace.interventions.sites import Site, check_sites
from statetrace.lenses.parts.answers import answers, check_fits
from statetrace.lenses.parts.attention_ablation import ablated
from statetrace.models import anatomy
from statetrace.tasks.word_problem import WordProblem

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = 500
"""Sequences where the caller gives none."""


@dataclass(frozen=True, repr=False)
class AblationTable:
    """n sequences of T actions.

    Attributes:
        heads: the ablated ones.
        instead: "mean" or "zero".
        intact, ablated: "state" or a quotient's name -> accuracy after each action [T].
        sequences: n.
    """

    heads: tuple[Site, ...]
    instead: str
    intact: dict[str, np.ndarray]
    ablated: dict[str, np.ndarray]
    sequences: int

    def to_pandas(self) -> pd.DataFrame:
        """A row per target and position: accuracy of the intact and of the ablated model."""
        import pandas as pd

        return pd.concat(
            [
                pd.DataFrame(
                    {
                        "target": target,
                        "position": np.arange(len(intact)),
                        "intact": intact,
                        "ablated": self.ablated[target],
                    }
                )
                for target, intact in self.intact.items()
            ],
            ignore_index=True,
        )

    def __repr__(self) -> str:
        changes = ", ".join(
            f"{target} {intact.mean():.1%} -> {self.ablated[target].mean():.1%}"
            for target, intact in self.intact.items()
        )
        where = f"{self.sequences} sequence{'s' if self.sequences > 1 else ''}"
        return (
            f"AblationTable({self.instead} ablation of {names_of(self.heads)}: {changes}; {where})"
        )

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th>{target}</th><td>{intact.mean():.1%}</td>"
            f"<td>{self.ablated[target].mean():.1%}</td></tr>"
            for target, intact in self.intact.items()
        )
        head = f"<tr><th>accuracy</th><th>intact</th><th>{self.instead} ablation</th></tr>"
        return f"<table><caption>{names_of(self.heads)}</caption>{head}{body}</table>"


def ablate(
    model: Any,
    task: WordProblem,
    heads: Iterable[tuple[int, int]],
    actions: ManyActions | None = None,
    instead: str = "mean",
    means: Mapping[Site, Tensor] | None = None,
) -> AblationTable:
    """Measure accuracy with and without heads; arguments as in `TrackedModel.ablate`, and `means`,
    the mean outputs of the heads [tokens, head_width] where the caller has them."""
    one_of("instead", instead, INSTEAD)
    places = parse_places("heads", heads, HEAD)
    sites = tuple(Site("head", layer, head) for layer, head in places)
    if not sites:
        raise StatetraceError("no heads to ablate; give them as [(layer, head), ...]")
    check_sites(sites, anatomy(model))
    sequences = (
        task.draw(EXAMPLES, 0)
        if actions is None
        else parse_sequences(task.group, actions, "actions")
    )
    check_fits(model, task, sequences.length)
    cut = None
    if instead == "mean":
        tokens = task.vocabulary.tokens(sequences.length)
        if means is None or len(means[sites[0]]) < tokens:
            means = head_means(model, task, sites, sequences.length)
        cut = {site: means[site][:tokens] for site in sites}
    intact = answers(model, task, sequences)
    with ablated(model, sites, cut):
        changed = answers(model, task, sequences)

    def accuracy(predicted: np.ndarray) -> dict[str, np.ndarray]:
        maps, true = {t.name: t.map.numpy() for t in targets_of(task)}, sequences.states
        return {name: (image[predicted] == image[true]).mean(0) for name, image in maps.items()}

    return AblationTable(sites, instead, accuracy(intact), accuracy(changed), len(sequences))
