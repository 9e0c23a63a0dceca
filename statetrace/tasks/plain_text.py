"""Sentences as any text has them: nothing added for alignment, and whoever trained the model chose
its tokenizer, its words and the tokens it answers with.

Purpose: to look at a checkpoint that someone else trained on the task in words. In a batch,
sentences are filled up to one length all the same, so that lenses find action t where they expect
it; the padding must then be hidden from the model, which makes it read the plain text (see
hidden_padding.py among the parts of the lenses). A text's first sentence may be other tokens than
the same sentence later on, as no space stands before it.

Cost: a look-up per action.
Caveat: the tokenizer must keep a period apart from what follows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from tokenizers import Tokenizer

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.tasks import tokenizer
from statetrace.tasks.phrases import Wordings
from statetrace.tasks.sentences import Sentences


@dataclass(frozen=True)
class PlainText(Sentences):
    """Attributes:
    first: as `told`, for a text's first sentence.
    pad: the token that fills sentences up; it stands for nothing else.
    """

    first: tuple[tuple[tuple[int, ...], ...], ...] = ()
    pad: int = 0

    def encode(self, elements: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        elements = elements.long()
        tokens = super().encode(elements, rows)
        begins = self._first.to(elements.device)  # [order, wordings, stride]
        chosen = torch.zeros_like(elements)
        if begins.shape[1] > 1:
            chosen = self._wordings(elements, rows)
        tokens[:, self.offset : self.offset + self.stride] = begins[elements[:, 0], chosen[:, 0]]
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
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StatetraceError(f"phrases '{file}' cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise StatetraceError(f"phrases '{file}' should be a JSON object: element -> sentence")
    return {label: [told] if isinstance(told, str) else told for label, told in found.items()}


def check_wordings(of: Group, wordings: Wordings) -> None:
    """Refuse sentences that do not tell every element, or have no period to ask at."""
    for label in of.labels:
        if label not in wordings:
            raise StatetraceError(f"the phrases have no sentence for '{label}' of {of.name}")
    for label, ways in wordings.items():
        if label not in of.labels:
            raise StatetraceError(f"the phrases tell '{label}', which is no element of {of.name}")
        for told in ways if isinstance(ways, list) and ways else [ways]:
            if not isinstance(told, str) or told.count(".") != 1 or not told.endswith("."):
                raise StatetraceError(
                    f"{told!r} for '{label}' is no sentence: it should end with its only period"
                )
    counts = {len(ways): label for label, ways in wordings.items()}
    if len(counts) > 1:
        (few, one), (many, other) = sorted(counts.items())[:2]
        raise StatetraceError(
            f"'{one}' is told in {few} ways and '{other}' in {many}; give each equally many"
        )


def plain_text(
    of: Group,
    wordings: Wordings,
    read: Tokenizer,
    answers: Sequence[int] | None = None,
    start: int | None = None,
) -> PlainText:
    """How a model with the tokenizer `read` was told the actions and says the states.

    Args:
        answers: token of each state; None for those that spell their labels.
        start: token that begins a text, if one does.
    """
    check_wordings(of, wordings)
    texts = [list(wordings[label]) for label in of.labels]
    later = [[tokenizer.ids_of(read, text) for text in ways] for ways in texts]
    first = [[_ids(read, text) for text in ways] for ways in texts]
    elements = tuple(answers) if answers is not None else spelled(read, of.labels)
    used = {i for table in (later, first) for ways in table for one in ways for i in one}
    used |= {*elements, *([] if start is None else [start])}
    pad = next(i for i in range(len(used) + 1) if i not in used)
    known = read.token_to_id(tokenizer.PAD)
    pad = pad if known is None or known in used else known
    stride = max(len(one) for table in (later, first) for ways in table for one in ways)

    def filled(table: list[list[tuple[int, ...]]]) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return tuple(tuple((pad,) * (stride - len(one)) + one for one in ways) for ways in table)

    made = PlainText(
        elements=elements,
        marker=start,
        told=filled(later),
        words=max(*used, pad) + 1,
        json=read.to_str(),
        first=filled(first),
        pad=pad,
    )
    _check_joins(made, read, texts)
    return made


def spelled(read: Tokenizer, labels: Sequence[str]) -> tuple[int, ...]:
    """The tokens that spell the states: <132>, 132, or 132 behind a space."""
    for form in ("<{}>", "{}", " {}"):
        ids = [_ids(read, form.format(label)) for label in labels]
        if all(len(one) == 1 for one in ids) and len(set(ids)) == len(ids):
            return tuple(one[0] for one in ids)
    raise StatetraceError(
        f"the tokenizer has no single token for each state, such as '{labels[0]}'; say which ids "
        "the model answers with (--tokens), in the order of the group's labels"
    )


def _ids(read: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(read.encode(text, add_special_tokens=False).ids)


def _check_joins(made: PlainText, read: Tokenizer, texts: list[list[str]]) -> None:
    """Sentences one by one must be the tokens of the whole text."""
    order = torch.arange(len(texts)).repeat(2)
    whole = " ".join(texts[i][0] for i in order.tolist())
    rows = torch.tensor(made.told)[order, 0]
    rows[0] = torch.tensor(made.first)[order[0], 0]
    if tuple(made.unpadded(rows.flatten()).tolist()) != _ids(read, whole):
        raise StatetraceError(
            f"the tokenizer reads '{texts[0][0]} {texts[1][0]}' as other tokens than sentence by "
            "sentence; use one that keeps sentences apart"
        )
