"""The settings of a run, section by section.

A field is at once a key of a TOML recipe, an option of `statetrace train` and its help text, so the
three cannot drift apart. Sections check their values at construction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from statetrace.config.checks import at_least, check_device, check_seed, need, one_of

SCHEDULES = ("linear", "cosine", "constant", "trapezoid")
PRECISIONS = ("auto", "float32", "bfloat16")
FORMS = ("tokens", "text")
PARALLELS = ("ddp", "fsdp")

SOLVED = 0.9
"""Accuracy at the training length from which a task counts as learned: training is not prolonged,
and the model is analyzed at that length."""


def setting(default: Any, help: str, flag: str | None = None) -> Any:
    """A field with its help text; `flag` is its name on the command line if that differs."""
    return field(default=default, metadata={"help": help, "flag": flag})


@dataclass(frozen=True)
class TaskSettings:
    """The task and its data."""

    group: str = setting("S3", "The group: S5, A4xZ5, ..., a .json file or module:name.")
    length: int = setting(100, "Actions per training sequence.")
    notation: str = setting(
        "moves",
        "How to read 312: 'moves' (object 1 moves to position 3; the paper's section 2.2) or "
        "'receives' (position 1 receives object 3; the published code).",
    )
    actions: str = setting(
        "all", "Elements that occur as actions: all, transpositions, or labels separated by commas."
    )
    form: str = setting(
        "tokens",
        "How actions are written: 'tokens' (one each) or 'text' (\"Swap positions 2 and 3.\"; the "
        "state is predicted at the period; S and A groups only).",
    )
    paraphrases: int = setting(1, "For text: number of built-in paraphrases per action, up to 4.")
    tokenizer: str | None = setting(
        None,
        "For text: a folder or Hugging Face id with a tokenizer.json (default: that of the "
        "pretrained model, or one trained on the task's sentences).",
    )
    start_marker: bool = setting(
        True,
        "Begin sequences with a marker token (default); without it rotary models cannot count "
        "identical actions.",
    )
    own_first_token: bool = setting(
        False,
        "Write the first action with tokens of its own instead of a marker, as the released code "
        "does by accident.",
    )
    sequences: int | None = setting(
        None,
        "Unique sequences, training plus analysis (default: a million, or all that exist).",
    )
    analysis_fraction: float = setting(0.1, "Share of the sequences held out from training.")
    data_seed: int = setting(0, "Seed of the sequences.")
    data: str | None = setting(
        None, "Folder of sequences to use instead, from `statetrace data` or the paper's generator."
    )

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)
        one_of("notation", self.notation, ("moves", "receives"))
        one_of("form", self.form, FORMS)
        at_least("paraphrases", self.paraphrases, 1)
        for name in ("paraphrases", "tokenizer"):
            value = getattr(self, name)
            need(
                self.form == "text" or value in (1, None),
                f"{name} {value} has no effect with form '{self.form}'; set form to 'text'",
            )
        need(
            not self.own_first_token or (self.form == "tokens" and not self.start_marker),
            "own_first_token marks the start of sequences of tokens in place of the start marker; "
            "set start_marker to false and form to 'tokens'",
        )
        at_least("sequences", self.sequences, 2)
        check_seed("data_seed", self.data_seed)
        need(
            0 < self.analysis_fraction < 1,
            f"analysis_fraction {self.analysis_fraction} leaves a split empty; "
            "use a number between 0 and 1, such as 0.1",
        )


@dataclass(frozen=True)
class ModelSettings:
    """The model."""

    name: str = setting(
        "gpt2",
        "A published size (gpt2-medium, pythia-160m, ...) or a family: gpt2, pythia, llama, qwen, "
        "gemma, mamba.",
        flag="model",
    )
    layers: int | None = setting(None, "Number of blocks (default: as published).")
    width: int | None = setting(None, "Width of the residual stream (default: as published).")
    heads: int | None = setting(None, "Attention heads per block (default: as published).")
    dropout: float | None = setting(None, "Dropout (default: GPT-2 0.1, other families 0).")
    init_std: float | None = setting(
        None, "Standard deviation of the initial weights (default: 0.02, Mamba 0.1)."
    )
    pretrained: str | None = setting(
        None, "Start from these weights: a Hugging Face id, or a folder with safetensors."
    )
    init_seed: int | None = setting(None, "Seed of the initial weights (default: the run's seed).")

    def __post_init__(self) -> None:
        check_seed("init_seed", self.init_seed)


@dataclass(frozen=True)
class TrainingSettings:
    """The optimization. The defaults are the paper's."""

    steps: int = setting(140_625, "Optimizer steps; 140,625 is 20 epochs of 900,000 sequences.")
    most_steps: int | None = setting(
        None,
        "If accuracy at any length is below 90% at the last step, continue for a third of the "
        "steps so far, up to this many in total.",
    )
    batch: int = setting(128, "Sequences per step, over all processes.")
    accumulate: int = setting(1, "Gradient accumulation: parts that each batch is split into.")
    learning_rate: float = setting(5e-5, "Peak learning rate of AdamW.")
    schedule: str = setting(
        "linear",
        "Decay of the learning rate: linear, cosine, constant, or trapezoid (constant, then linear "
        "over the last 30%).",
    )
    warmup: int = setting(0, "Steps of linear learning-rate warm-up.")
    grow: float = setting(
        0.0, "Share of the steps over which training sequences grow from 3 actions to full length."
    )
    weight_decay: float = setting(0.0, "Decoupled weight decay, on matrices only.")
    beta1: float = setting(0.9, "AdamW's first-moment decay.")
    beta2: float = setting(0.999, "AdamW's second-moment decay.")
    clip: float = setting(1.0, "Maximum gradient norm; 0 disables clipping.")
    stop_at: float | None = setting(
        None, "End early, at the first evaluation with at least this accuracy, e.g. 0.995."
    )
    stop_loss: float | None = setting(
        None, "End early, at the first evaluation with at most this loss."
    )
    stop_learned: float | None = setting(
        None,
        "End early, at the second evaluation in a row with at least this accuracy at every length "
        "(e.g. 0.99).",
    )
    seed: int = setting(0, "Seed of data order, dropout and (without init_seed) initial weights.")
    branch_from: str | None = setting(
        None,
        "A run folder: continue from its checkpoint of branch_step, with its weights, optimizer "
        "and schedule but the data order of this run's seed.",
    )
    branch_step: int | None = setting(
        None, "The step to continue from, in the last stage of branch_from."
    )
    device: str = setting("auto", "auto, cpu, cuda, a specific GPU such as cuda:1, or mps.")
    threads: int | None = setting(
        None,
        "CPU threads (default: the fastest number, measured before the first step and kept when a "
        "run is resumed; OMP_NUM_THREADS if that is set).",
    )
    precision: str = setting(
        "auto", "auto (bfloat16 autocast on CUDA, float32 on the CPU), float32 or bfloat16."
    )
    program: bool | None = setting(
        None,
        "Use the fused training step, one CUDA graph (default: on CUDA, for GPT-2 and Pythia on "
        "one process).",
    )
    compile: bool | None = setting(
        None, "Compile the model (default: on CUDA, without the fused training step)."
    )
    deterministic: bool = setting(
        True, "On CUDA, use only deterministic kernels, as exact resuming requires (default)."
    )
    parallel: str = setting(
        "ddp", "Under torchrun: ddp (a copy per process) or fsdp (sharded, for large models)."
    )

    def __post_init__(self) -> None:
        for name in ("steps", "most_steps", "batch", "accumulate", "threads", "branch_step"):
            at_least(name, getattr(self, name), 1)
        check_seed("seed", self.seed)
        need(
            self.branch_from is not None or self.branch_step is None,
            f"branch_step {self.branch_step} has no effect without branch_from; set that too",
        )
        for name in ("warmup", "clip", "weight_decay"):
            at_least(name, getattr(self, name), 0)
        need(
            math.isfinite(self.learning_rate) and self.learning_rate > 0,
            f"learning_rate {self.learning_rate} is not positive; use a number such as 5e-5",
        )
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            need(0 <= value < 1, f"{name} {value} is outside [0, 1); use a number such as 0.9")
        for name in ("stop_at", "stop_learned"):
            value = getattr(self, name)
            need(
                value is None or 0 < value <= 1,
                f"{name} {value} is not an accuracy; use a number up to 1, such as 0.99",
            )
        at_least("stop_loss", self.stop_loss, 0)
        need(0 <= self.grow <= 1, f"grow {self.grow} is not a share; use a number from 0 to 1")
        one_of("schedule", self.schedule, SCHEDULES)
        check_device(self.device)
        one_of("precision", self.precision, PRECISIONS)
        one_of("parallel", self.parallel, PARALLELS)
        need(
            self.batch % self.accumulate == 0,
            f"batch {self.batch} cannot be split into {self.accumulate} equal parts; "
            "accumulate must divide batch",
        )
        need(
            self.warmup < self.steps,
            f"warmup {self.warmup} takes up all {self.steps} steps; use fewer warmup steps",
        )

    @property
    def may_end_early(self) -> bool:
        rules = (self.stop_at, self.stop_loss, self.stop_learned)
        return any(rule is not None for rule in rules)


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation during training, on the analysis split."""

    evaluate_every: int = setting(1000, "Steps between evaluations; the last step has one too.")
    evaluate_sequences: int = setting(1000, "Analysis sequences per evaluation.")
    quotients: str = setting(
        "parity",
        "Quotients whose accuracy is logged besides the state's: parity (if there is one), all, "
        "none, or names separated by commas.",
    )
    log_every: int = setting(10, "Steps between records of the training loss.")
    tensorboard: bool = setting(False, "Also write TensorBoard events into the run folder.")
    wandb: str | None = setting(None, "Also log to this Weights & Biases project.")

    def __post_init__(self) -> None:
        for name in ("evaluate_every", "evaluate_sequences", "log_every"):
            at_least(name, getattr(self, name), 1)


@dataclass(frozen=True)
class CheckpointSettings:
    """Checkpoints on disk."""

    checkpoint_every: int = setting(10_000, "Steps between checkpoints; the last step has one too.")
    keep: int = setting(0, "Newest checkpoints to keep; 0 keeps all.")

    def __post_init__(self) -> None:
        at_least("checkpoint_every", self.checkpoint_every, 1)
        at_least("keep", self.keep, 0)
