"""The tokens of group elements and of the start of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from statetrace.errors import StatetraceError


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a task.

    A rotary model has no absolute positions and cannot count identical tokens: `a` and `a a` are
    the same to it unless something marks the start. Hence the marker, on by default.

    Attributes:
        elements: elements[g] is the token id of group element g.
        marker: token id put in front of every sequence, or None.
        first_shift: added to the token id of the first action, so that it marks the start.
    """

    elements: tuple[int, ...]
    marker: int | None
    first_shift: int = 0

    def __post_init__(self) -> None:
        used = [*self.elements, *([] if self.marker is None else [self.marker])]
        if any(token < 0 for token in used):
            raise StatetraceError(f"token id {min(used)} is negative; token ids start at 0")
        if len(set(used)) < len(used):
            repeated = next(token for token in used if used.count(token) > 1)
            raise StatetraceError(
                f"token id {repeated} is used twice; the {len(self.elements)} elements (--tokens) "
                "and the start marker (--start-token) need different ones"
            )

    @staticmethod
    def plain(order: int, start_marker: bool = True, own_first_token: bool = False) -> Vocabulary:
        """Token i is element i; the marker, if any, is the token after the last element. With an
        own first token, the first action is token order + i instead."""
        marker = order if start_marker else None
        return Vocabulary(tuple(range(order)), marker, order if own_first_token else 0)

    @property
    def size(self) -> int:
        """The smallest vocabulary of a model with all of these tokens."""
        marker = -1 if self.marker is None else self.marker
        return max(*(token + self.first_shift for token in self.elements), marker) + 1

    @property
    def offset(self) -> int:
        """Position of the first action: 1 after a start marker, else 0."""
        return 0 if self.marker is None else 1

    @property
    def stride(self) -> int:
        """Tokens of an action: action t fills the positions from offset + t * stride on."""
        return 1

    @property
    def reads(self) -> slice:
        """The positions at which a state is predicted: each action's last token."""
        return slice(self.offset + self.stride - 1, None, self.stride)

    def tokens(self, length: int) -> int:
        """Tokens of a sequence of `length` actions."""
        return self.offset + self.stride * length

    def fitting(self, positions: int) -> int:
        """Actions of the longest sequence that fits into `positions` tokens."""
        return max(0, positions - self.offset) // self.stride

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Element indices [B, T] -> token ids [B, T * stride + offset], the marker first if there
        is one. `rows` [B] number the sequences, which may determine their wording."""
        tokens = self.answers(elements)
        if self.marker is None:
            tokens = tokens.clone()
            tokens[:, 0] += self.first_shift
            return tokens
        return torch.nn.functional.pad(tokens, (1, 0), value=self.marker)

    def answers(self, states: torch.Tensor) -> torch.Tensor:
        """States [B, T] -> the tokens that name them [B, T]."""
        if self.elements == tuple(range(len(self.elements))):
            return states.long()
        return torch.as_tensor(self.elements, device=states.device)[states.long()]

    def files(self) -> dict[str, str]:
        """Tokenizer files for a checkpoint folder, by name."""
        return {}

    @property
    def fingerprint(self) -> str | None:
        """Of a tokenizer, which could change before a run is resumed."""
        return None
