"""Actions as sentences of several tokens; the state is asked for at each sentence's period.

Purpose: the vocabulary of a task in words. Every sentence is filled up on its left, with <pad>, to
the length of the longest, so that action t fills the positions offset + t * stride up to the next
action's in every sequence. Two sequences that differ in an action are therefore aligned token by
token, whatever the lengths of its two sentences; columns of a heat map are sentences; and the
position of a period does not give away which sentences came before. (In S3 it would: swaps are told
in fewer words than rotations, so counting the words would tell parity. The paper leaves its
sentences as they are and notes that its patches are not aligned.)

Where there are several wordings, which one is used depends on the row and on the position alone:
the two sequences of a pair are told in the same wordings, and a prefix is told the same whatever
follows.

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
"""Odd numbers of 64 bits whose products scatter well (those of splitmix64)."""


@dataclass(frozen=True)
class Sentences(Vocabulary):
    """A vocabulary of states, and sentences for actions.

    Attributes:
        elements: elements[g] is the token the model answers with for state g.
        told: told[g][w] are the tokens of action g in wording w, padded to one length.
        words: how many tokens the tokenizer knows.
        json: the tokenizer, as tokenizer.json has it.
    """

    told: tuple[tuple[tuple[int, ...], ...], ...] = ()
    words: int = 0
    json: str = field(default="", repr=False)

    @property
    def size(self) -> int:
        return self.words

    @property
    def stride(self) -> int:
        return len(self.told[0][0])

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Element indices [B, T] -> token ids [B, T * stride + offset]."""
        elements = elements.long()
        told = self._told.to(elements.device)  # [order, wordings, stride]
        chosen = self._wordings(elements, rows) if told.shape[1] > 1 else torch.zeros_like(elements)
        tokens = told[elements, chosen].flatten(1)
        if self.marker is None:
            return tokens
        return torch.nn.functional.pad(tokens, (1, 0), value=self.marker)

    def files(self) -> dict[str, str]:
        return tokenizer.files(Tokenizer.from_str(self.json))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    def text(self, tokens: torch.Tensor) -> str:
        """Tokens [T] as the text they stand for, special tokens left out."""
        decode = Tokenizer.from_str(self.json).decode
        told: str = decode(tokens.tolist(), skip_special_tokens=True)
        return told.strip()

    def _wordings(self, elements: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        """Which wording each action is told in, [B, T]."""
        count, length = elements.shape
        if rows is None:
            rows = torch.arange(count, device=elements.device)
        mixed = rows.long()[:, None] * MULTIPLIERS[0]
        mixed = mixed + torch.arange(1, length + 1, device=elements.device) * MULTIPLIERS[1]
        mixed = (mixed ^ (mixed >> 30)) * MULTIPLIERS[1]
        mixed = (mixed ^ (mixed >> 27)) * MULTIPLIERS[0]
        return (mixed ^ (mixed >> 31)) % self._told.shape[1]

    @cached_property
    def _told(self) -> torch.Tensor:
        return torch.tensor(self.told)


def sentences(
    of: Group, wordings: int = 1, start_marker: bool = True, read: Tokenizer | None = None
) -> Sentences:
    """The sentences of a group of permutations, `wordings` ways to tell each.

    Args:
        read: the tokenizer; None to train one on these sentences.
    """
    texts = list(phrases.wordings(of, wordings).values())
    plain = tokenizer.trained([text for ways in texts for text in ways]) if read is None else read
    made = tokenizer.with_answers(plain, of.labels)
    ids = [[tokenizer.ids_of(made, text) for text in ways] for ways in texts]
    stride = max(len(one) for ways in ids for one in ways)
    pad = tokenizer.token_id(made, tokenizer.PAD)
    return Sentences(
        elements=tuple(
            tokenizer.token_id(made, tokenizer.state_token(label)) for label in of.labels
        ),
        marker=tokenizer.token_id(made, tokenizer.START) if start_marker else None,
        told=tuple(tuple((pad,) * (stride - len(one)) + one for one in ways) for ways in ids),
        words=tokenizer.size_of(made),
        json=made.to_str(),
    )
