"""The parallel algorithm (§3.2): everything by counting, at any length in equally many layers.

It exists for every solvable group, along its derived series: S3 counts parity in layer 1 and turns
in layer 2, an abelian group takes one layer, S4 three.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.mechanisms.algorithms.counting import Counting
from statetrace.mechanisms.algorithms.program import Subset


@dataclass(frozen=True)
class Parallel(Counting):
    """Needs one layer per step of the derived series."""

    name = "parallel"

    @classmethod
    def of(cls, group: Group) -> Parallel:
        last = group.derived_series()[-1]
        if len(last) > 1:
            raise StatetraceError(
                f"{group.name} has no parallel algorithm: its derived series stops at a perfect "
                f"subgroup of order {len(last)}, so no fixed number of counting layers is enough; "
                "use a solvable group such as S3, S4, A4 or Dn"
            )
        return cls(group)

    @cached_property
    def chain(self) -> tuple[Subset, ...]:
        return self.group.derived_series()

    def reaches(self, layer: int, length: int) -> bool:
        return length == 1 or layer >= self.stages
