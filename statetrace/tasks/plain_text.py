"""Sentences as plain text, for a model with its own tokenizer, sentences and answer tokens.

Purpose: to analyze a checkpoint that someone else trained on the task as text. In a batch,
sentences are still padded to one length, so that lenses find action t where they expect it; the
padding is hidden from the model, which then reads plain text (lenses/parts/hidden_padding.py). The
first sentence of a text may have other tokens than the same sentence later, because no space
precedes it.

Cost: a look-up per action.
Caveat: the tokenizer must keep a period separate from what follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from tokenizers import Tokenizer

from statetrace.errors import StatetraceError
from statetrace.files import read_json
from statetrace.groups import Group
from statetrace.tasks import tokenizer
from statetrace.tasks.phrases import Wordings
from statetrace.tasks.sentences import ActionTokens, Sentences, padded


@dataclass(frozen=True)
class PlainText(Sentences):
    """Attributes:
    first: as `actions`, for the first sentence of a text.
    pad: the padding token, which has no other meaning.
    """

    first: ActionTokens = ()
    pad: int = 0

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        elements = elements.long()
        tokens = super().encode(elements, rows)
        first = self._first.to(elements.device)  # [order, wordings, stride]
        wording = self._wordings(elements, rows)[:, 0]
        tokens[:, self.offset : self.offset + self.stride] = first[elements[:, 0], wording]
        return tokens

    def unpadded(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [T] of one sequence without its padding."""
        return tokens[tokens != self.pad]

    @cached_property
    def _first(self) -> torch.Tensor:
        return torch.tensor(self.first)


def read_wordings(file: Path) -> dict[str, list[str]]:
    """Sentences from a JSON file: {"132": "Swap positions 2 and 3.", "312": [..., ...], ...}."""
    try:
        phrases = read_json(file)
    except (OSError, ValueError) as error:
        raise StatetraceError(
            f"phrases '{file}' cannot be read ({error}); give a JSON object: element -> sentence"
        ) from None
    return {label: [text] if isinstance(text, str) else text for label, text in phrases.items()}


def check_wordings(group: Group, wordings: Wordings) -> None:
    """Refuse missing elements and sentences without a single final period."""
    for label in group.labels:
        if label not in wordings:
            raise StatetraceError(f"the phrases have no sentence for '{label}' of {group.name}")
    for label, texts in wordings.items():
        if label not in group.labels:
            raise StatetraceError(
                f"the phrases describe '{label}', which is not an element of {group.name}"
            )
        for text in texts if isinstance(texts, list) and texts else [texts]:
            if not isinstance(text, str) or text.count(".") != 1 or not text.endswith("."):
                raise StatetraceError(
                    f"{text!r} for '{label}' is not a sentence: it should end with its only period"
                )
    counts = {len(texts): label for label, texts in wordings.items()}
    if len(counts) > 1:
        (few, label), (many, other) = sorted(counts.items())[:2]
        raise StatetraceError(
            f"'{label}' has {few} sentences and '{other}' {many}; give each element equally many"
        )


def plain_text(
    group: Group,
    wordings: Wordings,
    read: Tokenizer,
    answers: Sequence[int] | None = None,
    start: int | None = None,
) -> PlainText:
    """The vocabulary of a model that reads sentences with the tokenizer `read`.

    Args:
        answers: token of each state; None for those that spell their labels.
        start: token that begins a text, if any.
    """
    check_wordings(group, wordings)
    texts = [list(wordings[label]) for label in group.labels]
    later = [[tokenizer.ids_of(read, text) for text in ways] for ways in texts]
    first = [[tokenizer.encode(read, text) for text in ways] for ways in texts]
    elements = tuple(answers) if answers is not None else spelled(read, group.labels)
    spans = [ids for table in (later, first) for ways in table for ids in ways]
    used = {i for ids in spans for i in ids} | {*elements, *([] if start is None else [start])}
    pad = next(i for i in range(len(used) + 1) if i not in used)
    own_pad = read.token_to_id(tokenizer.PAD)
    pad = pad if own_pad is None or own_pad in used else own_pad
    stride = max(len(ids) for ids in spans)
    vocabulary = PlainText(
        elements=elements,
        marker=start,
        actions=padded(later, pad, stride),
        tokenizer_size=max(*used, pad) + 1,
        json=read.to_str(),
        first=padded(first, pad, stride),
        pad=pad,
    )
    _check_joins(vocabulary, read, texts)
    return vocabulary


def spelled(read: Tokenizer, labels: Sequence[str]) -> tuple[int, ...]:
    """The tokens that spell the states: <132>, 132, or 132 after a space."""
    for form in ("<{}>", "{}", " {}"):
        ids = [tokenizer.encode(read, form.format(label)) for label in labels]
        if all(len(span) == 1 for span in ids) and len(set(ids)) == len(ids):
            return tuple(span[0] for span in ids)
    raise StatetraceError(
        f"the tokenizer has no single token for each state, such as '{labels[0]}'; give the ids "
        "that the model answers with (--tokens), in the order of the group's labels"
    )


def _check_joins(vocabulary: PlainText, read: Tokenizer, texts: list[list[str]]) -> None:
    """Refuse a tokenizer that reads a text differently from its sentences one by one."""
    order = torch.arange(len(texts)).repeat(2)
    whole = " ".join(texts[i][0] for i in order.tolist())
    rows = torch.tensor(vocabulary.actions)[order, 0]
    rows[0] = torch.tensor(vocabulary.first)[order[0], 0]
    if tuple(vocabulary.unpadded(rows.flatten()).tolist()) != tokenizer.encode(read, whole):
        raise StatetraceError(
            f"the tokenizer reads '{texts[0][0]} {texts[1][0]}' differently from its two sentences "
            "alone; use one that keeps sentences apart"
        )
