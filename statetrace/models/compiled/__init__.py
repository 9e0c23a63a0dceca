"""Transformers whose algorithm is known: weights written by hand into a stock GPT-2."""

from statetrace.config.compile_spec import CompileSpec
from statetrace.models.compiled.compile import compile_model

__all__ = ["CompileSpec", "compile_model"]
