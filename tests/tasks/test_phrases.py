"""Sentences against a reader of their own that moves objects about, and against `arrange`."""

import re

import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import arrange, group
from statetrace.tasks.phrases import WORDINGS, check_permutations, sentence


def obey(text: str, objects: str) -> str:
    """Do what a sentence says. Knows words and no permutations."""
    row = list(objects)
    assert text[0].isupper()
    assert text.count(".") == 1
    assert text.endswith(".")
    for part in text[:-1].lower().split(", then "):
        digits = [int(digit) - 1 for digit in re.findall(r"\d", part)]
        if re.search(r"leave|nothing|keep|not move", part):
            assert not digits
        elif re.search(r"last item.*(front|first)|end to the beginning", part):
            row = [row[-1], *row[:-1]]
        elif re.search(r"first item.*(back|last)|beginning to the end", part):
            row = [*row[1:], row[0]]
        elif re.search(r"swap|exchange|trade|switch", part):
            a, b = digits
            row[a], row[b] = row[b], row[a]
        else:
            assert re.match(r"(move|send|shift|carry) the item at position \d to \d", part), part
            before = list(row)
            for a, b in zip(digits[::2], digits[1::2], strict=True):
                row[b] = before[a]
    return "".join(row)


@pytest.mark.parametrize("wording", range(WORDINGS))
@pytest.mark.parametrize("notation", ["moves", "receives"])
@pytest.mark.parametrize("name", ["S2", "S3", "S4", "S5", "A5"])
def test_a_sentence_does_what_its_label_does(name, notation, wording):
    of = group(name, notation)
    objects = "ABCDE"[: len(of.labels[0])]
    for label in of.labels:
        text = sentence(label, notation, wording)
        assert obey(text, objects) == "".join(arrange(label, objects, notation)), (label, text)


@pytest.mark.parametrize("notation", ["moves", "receives"])
def test_a_text_leads_to_the_product(notation):
    """Sentence after sentence, the objects end where the state says."""
    of = group("S4", notation)
    labels = ["2143", "2341", "1342", "4123", "1432"]
    row = "ABCD"
    for label in labels:
        row = obey(sentence(label, notation), row)
    assert row == "".join(arrange(of.labels[of.product(labels)], "ABCD", notation))


@pytest.mark.parametrize("wording", range(WORDINGS))
@pytest.mark.parametrize("name", ["S3", "S4"])
def test_different_movements_have_different_sentences(name, wording):
    labels = group(name).labels
    assert len({sentence(label, "moves", wording) for label in labels}) == len(labels)


def test_the_wordings_differ():
    for label in group("S4").labels:
        assert len({sentence(label, "moves", wording) for wording in range(WORDINGS)}) == WORDINGS


def test_the_papers_example():
    """132, 312, 213 in the notation of its appendix, ending at 123."""
    text = [sentence(label, "receives") for label in ("132", "312", "213")]
    assert " ".join(text) == (
        "Swap positions 2 and 3. Rotate the last item to the front. Swap positions 1 and 2."
    )
    of = group("S3", "receives")
    assert of.labels[of.product(["132", "312", "213"])] == "123"


def test_the_same_label_means_inverse_movements_in_the_other_notation():
    assert sentence("312", "receives") == sentence("231", "moves")
    assert sentence("312", "moves") == "Rotate the first item to the back."


@pytest.mark.parametrize("name", ["Z6", "D4", "S3xZ2"])
def test_groups_that_move_no_objects_are_refused(name):
    with pytest.raises(StatetraceError, match=r"cannot be written as text: its elements, such as"):
        check_permutations(group(name))
