"""What the attention lens is asked to measure."""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.errors import StatetraceError


@dataclass(frozen=True)
class AttentionSpec:
    """What to measure."""

    examples: int = 100
    """Sequences whose attention maps are read."""
    first: int = 5
    """The shortest prefix that counts in a head's score."""
    last: int | None = None
    """Length of the sequences; by default the task's (the paper: 80 for S3, 50 for S5)."""
    quotient: str = "parity"
    """Heads are scored by their attention to actions outside its kernel (for parity: odd)."""
    confidence: float = 0.95
    """Level of the confidence interval in the score."""
    margin: float = 0.95
    """What the interval's half-width is multiplied with, as in the paper's formula; 1 for the
    plain interval."""
    relabelings: int = 5
    """Random choices of other actions as the odd ones, to see what a head scores by chance."""
    top: int = 3
    """Heads in the summary, with their attention maps of one example."""
    ablation_sizes: tuple[int, ...] = (1, 2, 3)
    """Take out this many of the top heads; () for no ablations."""
    ablation_examples: int = 256
    """Sequences that are answered without them."""
    controls: int = 3
    """Random sets of other heads to compare each ablation with."""
    weight: float = 0.95
    """Attention tree: edges are heavier than this,"""
    top_target: int = 3
    """and among this many heaviest from their target,"""
    top_source: int = 10
    """and among this many heaviest to their source."""
    tree_examples: int | None = None
    """Sequences whose trees are measured; by default all `examples`."""
    tree_saved: int = 3
    """Trees whose edges are saved for drawing."""
    seed: int = 0

    def __post_init__(self) -> None:
        least = dict.fromkeys(("examples", "first", "top", "ablation_examples"), 1)
        least |= {
            "controls": 0,
            "relabelings": 0,
            "top_target": 1,
            "top_source": 1,
            "tree_saved": 0,
        }
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise StatetraceError(
                    f"{name} {getattr(self, name)} is too small; use {lowest} or more"
                )
        if self.last is not None and self.last <= self.first:
            raise StatetraceError(
                f"last {self.last} must be greater than first {self.first}, the shortest prefix"
            )
        if not 0 < self.confidence < 1:
            raise StatetraceError(f"confidence {self.confidence} must lie between 0 and 1")
        if self.margin < 0:
            raise StatetraceError(f"margin {self.margin} is negative; use 0 or more")
        if not 0 <= self.weight < 1:
            raise StatetraceError(f"weight {self.weight} must be at least 0 and below 1")
        if any(size < 1 for size in self.ablation_sizes):
            raise StatetraceError(
                f"ablation_sizes {self.ablation_sizes} must be whole numbers from 1 up"
            )
        if self.tree_examples is not None and not 0 <= self.tree_examples <= self.examples:
            raise StatetraceError(
                f"tree_examples {self.tree_examples} must lie between 0 and examples "
                f"({self.examples})"
            )
