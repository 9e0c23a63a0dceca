"""Which token stands for which group element, and for the start of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from statetrace.errors import StatetraceError


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a task.

    A rotary model without absolute positions cannot count identical tokens, so `a` and `a a` look
    the same to it unless something else marks the start; hence the marker, on by default.

    Attributes:
        elements: elements[g] is the token id of group element g.
        marker: token id put in front of every sequence, or None.
    """

    elements: tuple[int, ...]
    marker: int | None

    def __post_init__(self) -> None:
        used = [*self.elements, *([] if self.marker is None else [self.marker])]
        if any(token < 0 for token in used):
            raise StatetraceError(f"token id {min(used)} is negative; token ids start at 0")
        if len(set(used)) < len(used):
            twice = next(token for token in used if used.count(token) > 1)
            raise StatetraceError(
                f"token id {twice} is used twice; each element and the start marker need their own"
            )

    @staticmethod
    def plain(order: int, start_marker: bool = True) -> Vocabulary:
        """Token i is element i; the marker, if any, comes right after the last element."""
        return Vocabulary(tuple(range(order)), order if start_marker else None)

    @property
    def size(self) -> int:
        """The smallest vocabulary of a model that holds all of these tokens."""
        return max(*self.elements, -1 if self.marker is None else self.marker) + 1

    @property
    def offset(self) -> int:
        """Position of the first action: 1 behind a start marker, else 0."""
        return 0 if self.marker is None else 1

    def encode(self, elements: torch.Tensor) -> torch.Tensor:
        """Element indices [B, T] -> token ids [B, T + offset], the marker first if there is one."""
        if self.elements == tuple(range(len(self.elements))):
            tokens = elements.long()
        else:
            tokens = torch.as_tensor(self.elements, device=elements.device)[elements.long()]
        if self.marker is None:
            return tokens.clone()
        return torch.nn.functional.pad(tokens, (1, 0), value=self.marker)
