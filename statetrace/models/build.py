"""Build the model that a ModelSpec describes, from scratch or from pretrained weights, with an
embedding and unembedding for the task's tokens.

Cost: a 12B model from scratch needs 48 GB of memory; `parameter_count` needs none.
Caveat: weights are drawn on the CPU, so a seed gives the same model on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from statetrace.config.checks import whole
from statetrace.errors import StatetraceError
from statetrace.models.checkpoint import load_config, locate
from statetrace.models.families import anatomy, anatomy_class, family_of, size_named
from statetrace.models.pretrained import adapt_config, load_pretrained
from statetrace.models.spec import ModelSpec


@dataclass(frozen=True)
class ParameterCount:
    """Attributes:
    total: all parameters; tied ones count once.
    blocks: those in the blocks, without embeddings, final norm and unembedding.
    """

    total: int
    blocks: int


def build(
    spec: ModelSpec, vocab_size: int, max_length: int, seed: int, keep_vocabulary: bool = False
) -> Any:
    """The model in float32 on the CPU, in eval mode; the global random state is not used.

    Args:
        vocab_size: number of tokens of the task, start marker included.
        max_length: longest sequence it must accept, start marker included; it gets at least as
            many positions as published.
        seed: the same seed gives the same weights, bit for bit.
        keep_vocabulary: also keep the pretrained embedding (see `load_pretrained`).
    """
    vocab_size, max_length = whole("vocab_size", vocab_size, 1), whole("max_length", max_length, 1)
    if spec.pretrained is not None:
        return load_pretrained(
            spec.pretrained,
            vocab_size,
            max_length=max_length,
            seed=seed,
            dropout=spec.dropout,
            keep_vocabulary=keep_vocabulary,
        )
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the GPUs too
        return _from_config(_config(spec, vocab_size, max_length)).eval()


def parameter_count(
    spec: ModelSpec, vocab_size: int, max_length: int, keep_vocabulary: bool = False
) -> ParameterCount:
    """The size of the model that `build` would create. Of a pretrained model only the configuration
    is read (and fetched, for a hub id)."""
    vocab_size, max_length = whole("vocab_size", vocab_size, 1), whole("max_length", max_length, 1)
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        model = _from_config(_config(spec, vocab_size, max_length, keep_vocabulary))
    blocks = (parameter for block in anatomy(model).blocks for parameter in block.parameters())
    return ParameterCount(
        total=sum(parameter.numel() for parameter in model.parameters()),
        blocks=sum(parameter.numel() for parameter in blocks),
    )


def layer_count(spec: ModelSpec) -> int:
    """The number of blocks; of a pretrained model from its configuration."""
    if spec.pretrained is None:
        return spec.size.layers
    config = load_config(locate(spec.pretrained, weights=False))
    return int(config.get_text_config().num_hidden_layers)


def positions(spec: ModelSpec) -> int | None:
    """The number of positions of a pretrained model; None if any number is possible."""
    if spec.pretrained is None:
        return None
    config = load_config(locate(spec.pretrained, weights=False))
    return anatomy_class(config).position_limit(config)


def check_label(spec: ModelSpec) -> None:
    """Refuse pretrained weights of another family than the named one, if theirs is known."""
    named = size_named(spec.name)
    if spec.pretrained is None or named is None:
        return
    family = family_of(load_config(locate(spec.pretrained, weights=False)))
    if family is not None and family != named[0]:
        raise StatetraceError(
            f"model {spec.name!r} contradicts pretrained {spec.pretrained!r}, which is of the "
            f"family {family.name}; leave model out"
        )


def attends(spec: ModelSpec) -> bool:
    """Whether the model has attention; assumed if its family is unknown."""
    if spec.pretrained is None:
        return spec.family.attends
    family = family_of(load_config(locate(spec.pretrained, weights=False)))
    return family is None or family.attends


def _config(
    spec: ModelSpec, vocab_size: int, max_length: int, keep_vocabulary: bool = False
) -> Any:
    if spec.pretrained is not None:
        config = load_config(locate(spec.pretrained, weights=False))
        if keep_vocabulary:
            vocab_size = max(vocab_size, config.get_text_config().vocab_size)
        adapt_config(config, spec.pretrained, vocab_size, max_length, spec.dropout)
        return config
    dropout = spec.family.dropout if spec.dropout is None else spec.dropout
    positions = max(spec.size.positions, max_length)
    config = spec.family.config(spec.size, vocab_size, positions, dropout)
    if spec.init_std is not None:
        config.initializer_range = spec.init_std
    return config


def _from_config(config: Any) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, trust_remote_code=False
    )
