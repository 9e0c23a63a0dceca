"""Train language models to track state, then find out how they do it."""

__version__ = "0.1.0"
