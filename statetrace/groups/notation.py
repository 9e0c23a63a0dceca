"""The two readings of a one-line label such as 42315 in the paper.

- "moves" (section 2.2 and Figure 1, the default): object i moves to position a[i]. Then 42315
  followed by 12534 is 32514, and ABCDE becomes DBAEC.
- "receives" (the natural-language appendix and the published code): position j receives the
  object at position a[j]. Then 312 is "rotate the last item to the front", and 132, 312, 213
  lead back to 123.

The same label names inverse movements in the two readings, so label -> label of the inverse is
an isomorphism between the two groups and neither is more correct; but no single reading gives
both of the paper's worked examples. In tables: one is the transpose of the other.
"""

from collections.abc import Sequence
from typing import TypeVar

from statetrace.errors import StatetraceError

NOTATIONS = ("moves", "receives")

T = TypeVar("T")


def check_notation(notation: str) -> None:
    if notation not in NOTATIONS:
        raise StatetraceError(
            f"unknown notation {notation!r}; use 'moves' (object i moves to position a[i]) "
            "or 'receives' (position j receives object a[j])"
        )


def arrange(label: str, objects: Sequence[T], notation: str = "moves") -> list[T]:
    """The objects after the movement that the label stands for."""
    check_notation(notation)
    one_line = "".join(str(i + 1) for i in range(len(objects)))
    if sorted(label) != sorted(one_line):
        raise StatetraceError(
            f"{label!r} does not arrange {len(objects)} objects; use each digit of "
            f"{one_line!r} exactly once"
        )
    sources = [int(digit) - 1 for digit in label]
    if notation == "moves":
        sources = [label.index(digit) for digit in one_line]
    return [objects[source] for source in sources]
