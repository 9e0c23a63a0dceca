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

    @property
    def stride(self) -> int:
        """Tokens of an action: action t fills the positions from offset + t * stride on."""
        return 1

    @property
    def reads(self) -> slice:
        """The positions at which a state is asked for: each action's last token."""
        return slice(self.offset + self.stride - 1, None, self.stride)

    def tokens(self, length: int) -> int:
        """Tokens of a sequence of so many actions."""
        return self.offset + self.stride * length

    def fitting(self, positions: int) -> int:
        """The longest sequence that fits into so many positions."""
        return max(0, positions - self.offset) // self.stride

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Element indices [B, T] -> token ids [B, T * stride + offset], the marker first if there
        is one. `rows` [B] are numbers of the sequences, which may decide on their wording."""
        tokens = self.answers(elements)
        if self.marker is None:
            return tokens.clone()
        return torch.nn.functional.pad(tokens, (1, 0), value=self.marker)

    def answers(self, states: torch.Tensor) -> torch.Tensor:
        """States [B, T] -> the tokens that name them [B, T]."""
        if self.elements == tuple(range(len(self.elements))):
            return states.long()
        return torch.as_tensor(self.elements, device=states.device)[states.long()]

    def files(self) -> dict[str, str]:
        """What a checkpoint should hold to be read as text, by file name."""
        return {}

    @property
    def fingerprint(self) -> str | None:
        """Of a tokenizer, which could change while a run rests."""
        return None
