"""Pretrained weights with a new vocabulary.

Purpose: embedding and unembedding are replaced by rows for the task's tokens, drawn with the mean
and covariance of the old ones as transformers' own resizing does; all other weights are kept bit
for bit.
Cost: loading the checkpoint, plus one pass over the old embedding.
Caveat: at the default scale all tokens start very close to the mean of the old ones.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from statetrace.errors import StatetraceError
from statetrace.models.checkpoint import load, load_config, locate
from statetrace.models.families import anatomy_class, family_of

COVARIANCE_SCALE = 1e-9
"""New rows are drawn from N(mean, scale * covariance) of the old rows. 1e-9 is the `epsilon` in
transformers' `_init_added_embeddings_weights_with_mean` (modeling_utils.py)."""

_ROWS_AT_ONCE = 256  # bounds the noise held in memory, [256, old vocabulary]


def load_pretrained(
    source: str,
    vocab_size: int,
    *,
    seed: int,
    max_length: int | None = None,
    dropout: float | None = None,
    scale: float = COVARIANCE_SCALE,
    keep_vocabulary: bool = False,
) -> Any:
    """Any Hugging Face causal language model with the task's vocabulary, float32, in eval mode.

    Args:
        source: a folder with config.json and model.safetensors, or a hub id.
        vocab_size: number of tokens of the task, start marker included.
        seed: of the new rows; the global random state is not used.
        max_length: longest sequence it must accept; refused if the model has fewer positions.
        dropout: None to keep the checkpoint's.
        scale: see COVARIANCE_SCALE; 1.0 spreads the new tokens as widely as the old ones.
        keep_vocabulary: the task's first tokens are the model's own and keep their rows; only later
            ones are new. The vocabulary then never shrinks.
    """
    folder = locate(source)
    config = load_config(folder)
    old_size = config.get_text_config().vocab_size
    if keep_vocabulary:
        vocab_size = max(vocab_size, old_size)
    adapt_config(config, source, vocab_size, max_length, dropout)
    config.get_text_config().vocab_size = old_size  # until the old weights are loaded
    model = load(folder, config).float()
    generator = torch.Generator().manual_seed(seed)
    _replace_vocabulary(model, vocab_size, scale, generator, old_size if keep_vocabulary else 0)
    return model


def adapt_config(
    config: Any, source: str, vocab_size: int, max_length: int | None, dropout: float | None
) -> None:
    """Adapt a pretrained configuration to the task."""
    limit = anatomy_class(config).position_limit(config)
    if max_length is not None and limit is not None and max_length > limit:
        raise StatetraceError(
            f"a sequence of {max_length} tokens does not fit into {source!r}, which has {limit} "
            "positions; use shorter sequences or a model with more positions"
        )
    if dropout is not None:
        family = family_of(config)
        if family is None or (dropout and not family.dropout_fields):
            raise StatetraceError(
                f"dropout = {dropout} cannot be set for a {config.model_type!r} model; leave it "
                "out to keep the checkpoint's own"
            )
        for field in family.dropout_fields:
            setattr(config, field, dropout)
    for part in {id(part): part for part in (config, config.get_text_config())}.values():
        part.vocab_size = vocab_size
        for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(part, token, None)  # the old ids have no meaning among the task's tokens


@torch.no_grad()
def _replace_vocabulary(
    model: Any, size: int, scale: float, generator: torch.Generator, keep: int = 0
) -> None:
    """New rows for all tokens but the first `keep`."""
    old_in, old_out = model.get_input_embeddings(), model.get_output_embeddings()
    if not isinstance(old_in, nn.Embedding) or not isinstance(old_out, nn.Linear):
        raise StatetraceError(
            f"the vocabulary of a {model.config.model_type!r} model cannot be replaced (it needs "
            "an embedding and a linear unembedding); use another pretrained model"
        )
    tied = old_out.weight is old_in.weight

    def rows(old: Tensor) -> Tensor:
        if size == keep:
            return old.clone()
        return torch.cat([old[:keep], _draw(old, size - keep, scale, generator)])

    rows_in = rows(old_in.weight)
    rows_out = rows_in if tied else rows(old_out.weight)
    bias = None if old_out.bias is None else rows(old_out.bias[:, None])[:, 0]

    with torch.random.fork_rng(devices=[]):  # it draws random rows, which are overwritten below
        model.resize_token_embeddings(size, mean_resizing=False)
    new_in, new_out = model.get_input_embeddings(), model.get_output_embeddings()
    new_in.weight.copy_(rows_in)
    new_in.padding_idx = None  # the row of a padding token would never be trained
    if not tied:
        new_out.weight.copy_(rows_out)
    if bias is not None:
        new_out.bias.copy_(bias)
    if model.generation_config is not None:
        for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(model.generation_config, token, None)


def _draw(old: Tensor, rows: int, scale: float, generator: torch.Generator) -> Tensor:
    """[n, D] -> [rows, D] from N(mean, scale * covariance) of the old rows.

    Noise times the centred rows, over sqrt(n), has exactly their covariance, and works for singular
    ones too, unlike transformers' resizing.
    """
    old = old.float()
    mean = old.mean(dim=0)
    centred = old - mean
    drawn = []
    for start in range(0, rows, _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, rows - start)
        noise = torch.randn(count, len(old), generator=generator)
        drawn.append(mean + math.sqrt(scale / len(old)) * (noise @ centred))
    return torch.cat(drawn)
