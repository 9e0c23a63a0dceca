"""Models to look at: one of the zoo, and small random ones of every kind that differs."""

import dataclasses
from functools import cache
from pathlib import Path

import torch

import statetrace as st
from statetrace.inspection import make_session
from statetrace.lenses.loading import LoadedModel
from statetrace.models import ModelSpec, build
from statetrace.tasks.sentences import sentences
from statetrace.tasks.word_problem import word_problem

ZOO = "zoo:s3-parity-associative"
ACTIONS = "132,213,231,321,132,312,213,123"
SOURCE = "213,213,231,132,132,312,321,231"

RANDOM = {
    "gpt2": ("S3", "gpt2", False),
    "rotary": ("S3", "pythia", False),
    "recurrent": ("S3", "mamba", False),
    "sentences": ("S3", "gpt2", True),
    "many": ("S5", "gpt2", False),
    "clock": ("Z60", "gpt2", False),
    "too many": ("S6", "gpt2", False),
}


@cache
def zoo():
    return st.load(ZOO).session


@cache
def random_model(kind):
    """Untrained, but what it answers depends on what it reads."""
    name, family, text = RANDOM[kind]
    task = word_problem(name, 8)
    if text:
        task = dataclasses.replace(task, vocabulary=sentences(task.group, wordings=2))
    heads = None if family == "mamba" else 2
    spec = ModelSpec(family, layers=2, width=32, heads=heads)
    model = build(spec, task.vocabulary.size, task.vocabulary.tokens(16), seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and family != "mamba":
                parameter.normal_(0, 0.2, generator=generator)
    return make_session(LoadedModel(model, task, Path("nowhere")), kind)


def labels(model, length, seed=0):
    """Some actions, as the page sends them."""
    drawn = torch.randint(
        model.task.group.order, (length,), generator=torch.Generator().manual_seed(seed)
    )
    return [model.task.group.labels[i] for i in drawn.tolist()]
