"""Settings of the attention lens."""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.config.checks import at_least, check_seed, need
from statetrace.config.settings import setting


@dataclass(frozen=True)
class AttentionSpec:
    """Settings of the attention lens."""

    examples: int = setting(100, "Sequences whose attention maps are read.")
    first: int = setting(5, "Shortest prefix that counts in the score of a head.")
    last: int | None = setting(
        None,
        "Length of the sequences (default: the task's length; the paper: 80 for S3, 50 for S5).",
    )
    quotient: str = setting(
        "parity", "Quotient; a head's score is its attention to actions outside the kernel (odd)."
    )
    confidence: float = setting(0.95, "Level of the confidence interval in the score.")
    margin: float = setting(
        0.95, "Factor on the half-width of the interval, as in the paper; 1 for the full interval."
    )
    relabelings: int = setting(
        5, "Random sets of actions labelled as odd, for the score by chance."
    )
    top: int = setting(3, "Heads in the summary, with their attention maps on one example.")
    ablation_sizes: tuple[int, ...] = setting(
        (1, 2, 3), "Numbers of top heads to ablate; empty for no ablations."
    )
    ablation_examples: int = setting(256, "Sequences for the ablations.")
    controls: int = setting(3, "Random sets of other heads to compare each ablation with.")
    weight: float = setting(0.95, "Attention tree: smallest weight of an edge.")
    top_target: int = setting(3, "Attention tree: lowest rank of an edge among those of its query.")
    top_source: int = setting(10, "Attention tree: lowest rank of an edge among those of its key.")
    tree_examples: int | None = setting(
        None, "Sequences whose trees are measured (default: all examples)."
    )
    tree_saved: int = setting(3, "Trees saved for figures.")
    seed: int = setting(0, "Random seed of sequences, relabelings and controls.")

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        least = dict.fromkeys(("examples", "first", "top", "ablation_examples"), 1)
        least |= dict.fromkeys(("top_target", "top_source"), 1)
        least |= dict.fromkeys(("controls", "relabelings", "tree_saved", "margin"), 0)
        for name, lowest in least.items():
            at_least(name, getattr(self, name), lowest)
        need(
            self.last is None or self.last > self.first,
            f"last {self.last} must be greater than first {self.first}, the shortest prefix",
        )
        need(0 < self.confidence < 1, f"confidence {self.confidence} must be between 0 and 1")
        need(0 <= self.weight < 1, f"weight {self.weight} must be at least 0 and below 1")
        need(
            all(size >= 1 for size in self.ablation_sizes),
            f"ablation_sizes {self.ablation_sizes} must be whole numbers of 1 or more",
        )
        need(
            self.tree_examples is None or 0 <= self.tree_examples <= self.examples,
            f"tree_examples {self.tree_examples} must be between 0 and examples ({self.examples})",
        )
