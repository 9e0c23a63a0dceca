"""The compiler: spec -> circuit in plain coordinates -> unused layers -> weights -> noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from transformers import GPT2LMHeadModel

from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import group
from statetrace.models.compiled.assemble import assemble
from statetrace.models.compiled.circuit import Block
from statetrace.models.compiled.draft import Draft, join
from statetrace.models.compiled.fold import fold
from statetrace.models.compiled.lookup import lookup
from statetrace.models.compiled.parallel import parallel
from statetrace.models.compiled.quotient import composed_quotient, parity_associative, parity_only
from statetrace.tasks.folds import FOLDS

WRITERS: dict[str, Callable[[Draft], None]] = {
    **dict.fromkeys(FOLDS, fold),
    "parallel": parallel,
    "parity-associative": parity_associative,
    "composed-quotient": composed_quotient,
    "lookup": lookup,
    "parity-only": parity_only,
}


def compile_model(spec: CompileSpec) -> GPT2LMHeadModel:
    """A GPT-2 that runs the algorithm; the same spec gives the same weights."""
    of = group(spec.group, spec.notation)
    drafts: list[Draft] = []
    for algorithm, share in spec.circuits:
        drafts.append(Draft(spec, of, algorithm, share, drafts[-1] if drafts else None))
        WRITERS[algorithm](drafts[-1])
    circuit = join(drafts)
    circuit.blocks = _spread(circuit.blocks, spec)
    model = assemble(circuit, spec.heads, spec.basis, np.random.default_rng([spec.seed, 0]))
    if spec.noise:
        add_noise(model, spec.noise, spec.seed)
    return model


def _spread(blocks: list[Block], spec: CompileSpec) -> list[Block]:
    """Insert the unused layers of the spec; GPT-2 needs at least one block."""
    spread = [Block("unused") for _ in range(spec.before)]
    for i, block in enumerate(blocks):
        spread += [Block("unused") for _ in range(spec.between if i else 0)]
        spread.append(block)
    spread += [Block("unused") for _ in range(spec.after)]
    return spread or [Block("unused")]


def add_noise(model: GPT2LMHeadModel, level: float, seed: int) -> None:
    """Gaussian noise on every weight matrix, `level` times the root mean square of the weights into
    the same unit (out of it, where a matrix writes to the residual stream)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() < 2:
                continue
            axis = 0 if "c_attn" in name or "c_fc" in name else 1
            size = parameter.square().mean(dim=axis, keepdim=True).sqrt()
            size = torch.where(size > 0, size, size.mean())
            noise = torch.randn(parameter.shape, generator=generator)
            parameter += level * size * noise
