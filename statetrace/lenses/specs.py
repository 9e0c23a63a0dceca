"""The settings of every lens: `--set LENS.NAME=VALUE`, or keywords of `model.analyze` in Python.

A field holds its default and its help text. Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.config.checks import at_least, check_seed, need, one_of
from statetrace.config.settings import setting
from statetrace.errors import StatetraceError
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.cutoffs import THRESHOLD

PAPER_GRIDS = (
    GridSpec("prefix", "substitution"),  # Figures 2, 8A, 8B and 9
    GridSpec("suffix", "deletion"),  # Figure 8C
    GridSpec("window", "deletion", window=1),  # Figure 8D
)

TOLERANCE = 1e-4
"""Of probes, the default of scikit-learn; accuracies are then within a few tenths of a point of
converged ones."""


@dataclass(frozen=True)
class GeneralizationSpec:
    """Settings of the generalization lens."""

    longest: int | None = setting(
        None,
        "Longest sequence (default: twice the training length, or the positions of the model).",
    )
    sequences: int = setting(1000, "Sequences per measurement.")
    threshold: float = setting(
        THRESHOLD, "The cutoff is the first length with accuracy below this (the paper's 98%)."
    )
    bootstrap: int = setting(1000, "Bootstrap samples for the interval of the cutoff.")
    seed: int = setting(0, "Random seed of the sequences.")

    def __post_init__(self) -> None:
        for name in ("sequences", "bootstrap", "longest"):
            at_least(name, getattr(self, name), 1)
        check_seed("seed", self.seed)
        if not 0 < self.threshold <= 1:
            raise StatetraceError(f"threshold {self.threshold} must be between 0 and 1")


@dataclass(frozen=True)
class ProbingSpec:
    """Settings of the probing lens."""

    targets: tuple[str, ...] | None = setting(
        None,
        "'state', names of quotients, or 'quotients' for all of them (default: state and parity).",
    )
    length: int | None = setting(None, "Actions per sequence, T (default: the task's length).")
    lengths: tuple[int, ...] | None = setting(
        None,
        "Lengths with separate probes, the full length always included (default: from 5 on, up to "
        "most_lengths of them).",
    )
    most_lengths: int = setting(20, "Maximum number of lengths, if lengths is not set.")
    positions: tuple[str, ...] = setting(
        ("last", "any"),
        "Where probes read: 'last' (last token, for each length), 'any' (one random position per "
        "sequence), 'all' (every position, as in the paper's released code; train and test then "
        "count positions). Verdicts need last.",
    )
    subsets: int = setting(
        10, "Disjoint subsets of the training sequences, for the standard deviation."
    )
    train: int | None = setting(
        None,
        "Training sequences in all subsets together (default: per subset 500, 4 per feature, or 10 "
        "per class, whichever is most).",
    )
    test: int = setting(2000, "Held-out sequences.")
    C: float = setting(
        1.0, "Inverse regularization strength, as in scikit-learn; features are standardized."
    )
    controls: tuple[str, ...] = setting(
        ("untrained", "shuffled"), "Controls: 'untrained' and 'shuffled'."
    )
    threshold: float = setting(0.98, "Accuracy from which a target counts as decodable.")
    tolerance: float = setting(TOLERANCE, "Largest gradient entry at which a fit ends.")
    max_iterations: int = setting(1000, "Maximum iterations of a fit.")
    seed: int = setting(
        0, "Random seed of the sequences, their split, the untrained model and the shuffling."
    )

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        for name in ("length", "most_lengths", "subsets", "train", "test", "max_iterations"):
            at_least(name, getattr(self, name), 1)
        for name in ("C", "tolerance"):
            need(getattr(self, name) > 0, f"{name} {getattr(self, name)} must be above 0")
        need(0 < self.threshold <= 1, f"threshold {self.threshold} must be between 0 and 1")
        for control in self.controls:
            one_of("control", control, ("untrained", "shuffled"))
        for position in self.positions:
            one_of("position", position, ("last", "any", "all"))
        need(bool(self.positions), "positions is empty; use last, any or all")


@dataclass(frozen=True)
class PatchingSpec:
    """Settings of the patching lens."""

    pairs: int = setting(200, "Pairs of a clean and a corrupted sequence (the paper's number).")
    grids: tuple[GridSpec, ...] = setting(
        PAPER_GRIDS,
        "Heat maps, by names such as prefix-substitution-resid or window3-deletion-head.",
    )
    corrupt_at: int = setting(0, "The action in which the two sequences differ.")
    length: int | None = setting(None, "Actions per sequence (default: the task's length).")
    by: str = setting(
        "action",
        "Columns of the heat maps: 'action' or 'token', which differ where actions are sentences. "
        "Results by token are saved as patching-by-token and not used for verdicts.",
    )
    quotients: tuple[str, ...] | None = setting(
        None, "Quotients to split the pairs by (default: all, parity first)."
    )
    balanced: bool = setting(
        False,
        "Draw half of the pairs with the same and half with the opposite parity (or first "
        "quotient), as the paper's released code does; by default the corruption is uniform.",
    )
    average: str = setting(
        "mean",
        "Average over pairs, in the column `mean`: 'mean', as in the paper, or 'median', on which "
        "single pairs have little effect. Medians are not used for verdicts.",
    )
    logits: bool = setting(
        False,
        "Also save the logits of all states in every cell and pair, as arrays NAME.logits; they "
        "show which answers a patch leads to.",
    )
    seed: int = setting(0, "Random seed of the pairs.")

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        at_least("pairs", self.pairs, 1)
        one_of("by", self.by, ("action", "token"))
        one_of("average", self.average, ("mean", "median"))
        names = [grid.name for grid in self.grids]
        if not names or len(set(names)) < len(names):
            raise StatetraceError(
                f"grids '{', '.join(names)}' are invalid; use one or more different grids"
            )


@dataclass(frozen=True)
class DepthSpec:
    """Settings of the depth lens."""

    lengths: tuple[int, ...] | None = setting(
        None, "Lengths, 2 or more (default: 2, 3, 4, 6, 8, 12, 16, ... and the task's length)."
    )
    pairs: int = setting(200, "Pairs of a clean and a corrupted sequence per length.")
    seed: int = setting(0, "Random seed of the pairs.")

    def __post_init__(self) -> None:
        at_least("pairs", self.pairs, 1)
        check_seed("seed", self.seed)
        if self.lengths is not None and (not self.lengths or min(self.lengths) < 2):
            raise StatetraceError(
                f"lengths {self.lengths} are invalid; use one or more lengths of 2 or more"
            )


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


@dataclass(frozen=True)
class GeometrySpec:
    """Settings of the geometry lens."""

    sequences: int = setting(4096, "Sequences; about ten per state are needed.")
    length: int | None = setting(None, "Actions per sequence (default: the task's length).")
    layers: tuple[int, ...] | None = setting(
        None, "Layers: 0 is the embedding, l the output of block l (default: all)."
    )
    quotients: tuple[str, ...] | None = setting(None, "Quotients to measure (default: all).")
    permutations: int = setting(1000, "Permutations of the labels for the null; 0 for none.")
    components: int = setting(3, "Principal components.")
    points: int = setting(500, "Single points whose coordinates are saved.")
    seed: int = setting(0, "Random seed of sequences and permutations.")

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        least = {"sequences": 2, "permutations": 0, "components": 1, "points": 0}
        for name, lowest in least.items():
            at_least(name, getattr(self, name), lowest)
        if self.layers is not None and not self.layers:
            raise StatetraceError("layers is empty; give one or more layers, or none for all")


@dataclass(frozen=True)
class DynamicsSpec:
    """Settings of the dynamics lens."""

    run: str = setting("", "The run folder; set by `statetrace analyze RUN`.")
    thresholds: tuple[float, ...] = setting(
        (0.5, 0.9, 0.98), "Accuracies whose first step is reported, per length."
    )
    most_phases: int = setting(6, "Maximum number of phases.")
    until: int | None = setting(None, "Last step to read (default: the whole log).")

    def __post_init__(self) -> None:
        at_least("most_phases", self.most_phases, 1)


@dataclass(frozen=True)
class SubspaceSpec:
    """Settings of the subspace lens."""

    quotients: tuple[str, ...] | None = setting(
        None, "Quotients (default: parity, or the first one)."
    )
    methods: tuple[str, ...] = setting(
        ("means", "das"), "How to determine the subspace: 'means', 'das'."
    )
    dimension: int | None = setting(
        None, "Dimension of the learned subspace (default: the number of values - 1)."
    )
    positions: str = setting(
        "last", "Where to exchange: the 'last' token, or the whole 'prefix' up to and with it."
    )
    layers: tuple[int, ...] | None = setting(
        None, "Layers: 0 is the embedding, l the output of block l (default: all)."
    )
    length: int | None = setting(None, "Actions per sequence (default: the task's length).")
    sequences: int = setting(4000, "Sequences to draw from; half for fitting, half for testing.")
    pairs: int = setting(400, "Pairs to test, half of them with different values of the quotient.")
    train: int = setting(512, "Pairs to learn from.")
    steps: int = setting(100, "Gradient steps per layer.")
    rate: float = setting(0.01, "Learning rate at the beginning; it falls linearly to 0.")
    batch: int = setting(128, "Pairs at a time.")
    controls: tuple[str, ...] = setting(
        ("random", "untrained"), "Controls: 'random' and 'untrained'."
    )
    draws: int = setting(5, "Random subspaces per layer.")
    seed: int = setting(0, "Random seed of sequences, pairs, random subspaces and the control.")

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        one_of("positions", self.positions, ("last", "prefix"))
        for name, accepted in (
            ("methods", ("means", "das")),
            ("controls", ("random", "untrained")),
        ):
            for value in getattr(self, name):
                one_of(name, value, accepted)
        for name in ("dimension", "steps", "batch", "draws"):
            at_least(name, getattr(self, name), 1)
        at_least("pairs", self.pairs, 2)
        at_least("train", self.train, 2)
