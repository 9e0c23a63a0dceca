"""Is a model read as it was trained? Other readings of its tokens, tried if accuracy is low.

A model that is read in the wrong notation, without its start marker or with its tokens in another
order looks as if it had learned nothing. Its answers to all pairs of actions are a table; if that
is the table of the group up to the names of the elements, the order of the tokens follows.

Cost: the answers to 300 sequences and to all pairs, for each of at most twelve readings.
Caveat: only models with one token per action, and for the order of tokens groups of at most 60
elements; a renaming that maps the group to itself is no misreading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.config.settings import SOLVED
from statetrace.errors import StatetraceError
from statetrace.groups import NOTATIONS, group
from statetrace.lenses.parts.answers import answers
from statetrace.mechanisms.mastery import LEARNED
from statetrace.tasks.sequences import Sequences, scan
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem

SEQUENCES, LARGEST, MOST_IMAGES = 300, 60, 20_000

Table = NDArray[np.int64]


def hint(model: Any, task: WordProblem) -> str | None:
    """Options with which the model solves more, as a sentence, without --tokens if others do; None
    if there are none."""
    if type(task.vocabulary) is not Vocabulary or task.actions is not None:
        return None
    best, options = max(solved(model, task), LEARNED - 1), ""
    for other, how in sorted(readings(model, task), key=lambda reading: "--tokens" in reading[1]):
        actions = solved(model, other)
        if actions > best:
            best, options = actions, how
    if not options:
        return None
    return f"with {options} the model solves {best} of {task.length} actions"


def solved(model: Any, task: WordProblem) -> int:
    """The longest length up to which every length has an accuracy of 90%."""
    sequences = task.sample(min(SEQUENCES, task.space), 0)
    failed = (answers(model, task, sequences) == sequences.states).mean(0) < SOLVED
    return int(failed.argmax()) if failed.any() else task.length


def readings(model: Any, task: WordProblem) -> Iterator[tuple[WordProblem, str]]:
    """Other tasks, with the options that they need."""
    for (vocabulary, tokens), notation in product(_vocabularies(model, task), NOTATIONS):
        other, options = replace(task, vocabulary=vocabulary), tokens
        if notation != task.group.notation:
            try:
                other = replace(other, group=group(task.group.name, notation))
            except StatetraceError:  # a group without a built-in name has one notation
                continue
            options = [f"--notation {notation}", *tokens]
        if options:
            yield other, " ".join(options)
        if notation == task.group.notation:
            order = _order_of_tokens(model, other)
            if order is not None:
                listed = f"--tokens {','.join(map(str, order))}"
                named = Vocabulary(order, vocabulary.marker)
                start = [option for option in tokens if "--tokens" not in option]
                yield replace(other, vocabulary=named), " ".join([listed, *start])


def _vocabularies(model: Any, task: WordProblem) -> Iterator[tuple[Vocabulary, list[str]]]:
    """The given one; without or with a start marker; and with the marker before the elements, as
    token 0, or as token 1 after one for padding."""
    given, size = task.vocabulary, int(model.get_input_embeddings().weight.shape[0])
    order, spare = task.group.order, max(task.vocabulary.elements) + 1
    yield given, []
    if given.marker is not None:
        yield Vocabulary(given.elements, None), ["--no-start-marker"]
    elif spare < size:
        yield Vocabulary(given.elements, spare), [f"--start-token {spare}"]
    for marker in (0, 1):
        elements = tuple(range(marker + 1, marker + 1 + order))
        if given.marker != marker and elements[-1] < size:
            listed = f"--tokens {','.join(map(str, elements))}"
            yield Vocabulary(elements, marker), [listed, f"--start-token {marker}"]


def _order_of_tokens(model: Any, task: WordProblem) -> tuple[int, ...] | None:
    """The token of each element, if the model's answers to pairs multiply as the group does."""
    order = task.group.order
    if not 2 < order <= LARGEST:
        return None
    pairs = np.array(list(product(range(order), repeat=2)), dtype=np.int64)
    given = answers(model, task, Sequences(pairs, scan(task.group, pairs)))
    images = isomorphism(task.group.table, given[:, 1].reshape(order, order))
    if images is None or (images == np.arange(order)).all():
        return None
    return tuple(task.vocabulary.elements[image] for image in images)


def isomorphism(table: Table, other: Table) -> Table | None:
    """The images of the elements under a map that turns one table into the other."""
    elements = np.arange(len(table))
    units = np.flatnonzero((other == elements).all(1) & (elements == other.T).all(1))
    generators, products = _products(table)
    if not len(units) or len(table) ** len(generators) > MOST_IMAGES:
        return None
    identity = int(np.flatnonzero((table == elements).all(1))[0])
    for chosen in permutations(elements, len(generators)):
        image = np.zeros(len(table), dtype=np.int64)
        image[identity] = units[0]
        for element, before, generator in products:
            image[element] = other[image[before], chosen[generator]]
        if (
            len(set(image.tolist())) == len(table)
            and (other[image[:, None], image[None]] == image[table]).all()
        ):
            return image
    return None


def _products(table: Table) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Generators, and each element as an earlier one times one of these (by its number)."""
    identity = int(np.flatnonzero((table == np.arange(len(table))).all(1))[0])
    generators: list[int] = []
    products: list[tuple[int, int, int]] = []
    reached = [identity]
    for element in range(len(table)):
        if element in reached:
            continue
        generators.append(element)
        reached, products = [identity], []
        for before in reached:  # grows while it is walked
            for number, generator in enumerate(generators):
                after = int(table[before, generator])
                if after not in reached:
                    reached.append(after)
                    products.append((after, before, number))
    return generators, products
