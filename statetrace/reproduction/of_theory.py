"""Numbers that need no training: an example, algorithms as programs, compiled models."""

from __future__ import annotations

from statetrace.groups import arrange, group
from statetrace.mechanisms.signatures import signature
from statetrace.reproduction.measured import Measure, Measured
from statetrace.reproduction.results import Results
from statetrace.tasks.phrases import wordings
from statetrace.tasks.tokenizer import ids_of, trained

COMPILED = "results/calibration/measures.jsonl"


def composed_example(found: Results) -> Measured:
    """How many of the two results of Figure 1A come out."""
    s5 = group("S5")
    at = {label: number for number, label in enumerate(s5.labels)}
    product = s5.labels[int(s5.table[at["42315"]][at["12534"]])]
    order = "".join(arrange(product, "ABCDE"))
    right = (product == "32514") + (order == "DBAEC")
    return Measured(right / 2, 2, "results", unit="share", words=f"{product}, {order}",
                    sources=("statetrace/groups/notation.py",))  # fmt: skip


def told_in_words(found: Results) -> Measured:
    """How many of the two counts of tokens come out, with a tokenizer of S3's sentences."""
    told = [text for ways in wordings(group("S3", "receives"), 1).values() for text in ways]
    words = trained(told)
    counts = {
        kind: sorted({len(ids_of(words, text)) - 1 for text in told if text.startswith(kind)})
        for kind in ("Swap", "Rotate")
    }
    right = (counts["Swap"] == [5]) + (counts["Rotate"] == [7])
    said = ", ".join(f"{kind} {' or '.join(map(str, n))}" for kind, n in counts.items())
    sources = ("statetrace/tasks/phrases.py", "statetrace/tasks/tokenizer.py")
    said += ", without the period"
    return Measured(right / 2, 2, "counts", unit="share", words=said, sources=sources)


def signature_fronts(algorithm: str, length: int) -> Measure:
    """Layers until the whole sequence is in its last token, by running the algorithm."""

    def measure(found: Results) -> Measured:
        made = signature(algorithm, "S3", length)
        fronts = made.restores("opposite")
        layers = next(i for i, front in enumerate(fronts) if front == length)
        words = "actions to restore: " + " ".join(map(str, fronts[:6])) + (" …" * (len(fronts) > 6))
        return Measured(layers, made.pairs["opposite"], "pairs", unit="layers", words=words,
                        sources=("statetrace/mechanisms/signatures.py",))  # fmt: skip

    return measure


def compiled_accuracy(algorithm: str, of: str) -> Measure:
    """The least accuracy among models whose weights were computed, without noise."""

    def measure(found: Results) -> Measured:
        right = [
            row["accuracy"]
            for row in found.lines(COMPILED)
            if row["label"] == algorithm and row["spec"]["group"] == of and not row["spec"]["noise"]
        ]
        value = min(right) if right else None
        return Measured(value, len(right), "compiled models", unit="share", words="the least",
                        sources=(COMPILED,))  # fmt: skip

    return measure
