"""Transformers with a known algorithm: a stock GPT-2 with constructed weights."""

from statetrace.config.compile_spec import CompileSpec
from statetrace.models.compiled.compile import compile_model

__all__ = ["CompileSpec", "compile_model"]
