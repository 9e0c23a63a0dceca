"""Actions as sentences of several tokens; the state is predicted at each sentence's period.

Purpose: the vocabulary of the task as text. Every sentence is padded on its left with <pad> to the
length of the longest, so that action t fills the positions from offset + t * stride on in every
sequence. Two sequences that differ in an action are therefore aligned token by token, columns of a
heat map are sentences, and the position of a period does not reveal which sentences preceded it.
(In S3 it would: swaps take fewer words than rotations, so counting words would give parity. The
paper leaves its sentences as they are and notes that its patches are not aligned.)

If there are several wordings, the choice depends on the row and the position alone: the two
sequences of a pair have the same wordings, and so does a prefix whatever follows it.

Cost: one look-up per action.
Caveat: padding is visible to the model, as a token like any other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import torch
from tokenizers import Tokenizer

from statetrace.groups import Group
from statetrace.tasks import phrases, tokenizer
from statetrace.tasks.vocabulary import Vocabulary

MULTIPLIERS = (-7046029254386353131, -4658895280553007687)
"""Odd 64-bit multipliers that mix well (those of splitmix64)."""

ActionTokens = tuple[tuple[tuple[int, ...], ...], ...]
"""[order, wordings, stride]."""


@dataclass(frozen=True)
class Sentences(Vocabulary):
    """A vocabulary of states, and sentences for actions.

    Attributes:
        elements: elements[g] is the token for state g.
        actions: actions[g][w] are the tokens of action g in wording w, padded to one length.
        tokenizer_size: number of tokens of the tokenizer.
        json: the tokenizer, as in tokenizer.json.
    """

    actions: ActionTokens = ()
    tokenizer_size: int = 0
    json: str = field(default="", repr=False)

    @property
    def size(self) -> int:
        return self.tokenizer_size

    @property
    def stride(self) -> int:
        return len(self.actions[0][0])

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Element indices [B, T] -> token ids [B, T * stride + offset]."""
        elements = elements.long()
        table = self._actions.to(elements.device)  # [order, wordings, stride]
        tokens = table[elements, self._wordings(elements, rows)].flatten(1)
        if self.marker is None:
            return tokens
        return torch.nn.functional.pad(tokens, (1, 0), value=self.marker)

    def files(self) -> dict[str, str]:
        return tokenizer.files(Tokenizer.from_str(self.json))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    def text(self, tokens: torch.Tensor) -> str:
        """Tokens [T] decoded to text, without special tokens."""
        decode = Tokenizer.from_str(self.json).decode
        text: str = decode(tokens.tolist(), skip_special_tokens=True)
        return text.strip()

    def _wordings(self, elements: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        """The wording of each action, [B, T]."""
        if self._actions.shape[1] == 1:
            return torch.zeros_like(elements)
        count, length = elements.shape
        if rows is None:
            rows = torch.arange(count, device=elements.device)
        mixed = rows.long()[:, None] * MULTIPLIERS[0]
        mixed = mixed + torch.arange(1, length + 1, device=elements.device) * MULTIPLIERS[1]
        mixed = (mixed ^ (mixed >> 30)) * MULTIPLIERS[1]
        mixed = (mixed ^ (mixed >> 27)) * MULTIPLIERS[0]
        return (mixed ^ (mixed >> 31)) % self._actions.shape[1]

    @cached_property
    def _actions(self) -> torch.Tensor:
        return torch.tensor(self.actions)


def sentences(
    group: Group, wordings: int = 1, start_marker: bool = True, read: Tokenizer | None = None
) -> Sentences:
    """The sentences of a group of permutations, each in several wordings.

    Args:
        read: the tokenizer; None to train one on these sentences.
    """
    texts = list(phrases.wordings(group, wordings).values())
    plain = tokenizer.trained([text for ways in texts for text in ways]) if read is None else read
    full = tokenizer.with_answers(plain, group.labels)
    ids = [[tokenizer.ids_of(full, text) for text in ways] for ways in texts]
    stride = max(len(span) for ways in ids for span in ways)
    pad = tokenizer.token_id(full, tokenizer.PAD)
    answers = (tokenizer.state_token(label) for label in group.labels)
    return Sentences(
        elements=tuple(tokenizer.token_id(full, answer) for answer in answers),
        marker=tokenizer.token_id(full, tokenizer.START) if start_marker else None,
        actions=padded(ids, pad, stride),
        tokenizer_size=tokenizer.size_of(full),
        json=full.to_str(),
    )


def padded(ids: list[list[tuple[int, ...]]], pad: int, stride: int) -> ActionTokens:
    """Tokens of every action and wording, padded on the left to `stride`."""
    return tuple(tuple((pad,) * (stride - len(span)) + span for span in ways) for ways in ids)
