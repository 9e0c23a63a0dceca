"""The Python interface: load a model, analyze it, get a verdict, write a report.

    import statetrace as st

    model = st.load("zoo:s3-associative")
    model.analyze(["patching"], pairs=50)["patching"].plot()
    model.verdict()

This is a thin layer over analysis.py, inspection/, training/, studies/ and reports/. The
command line and the explorer call these functions.
"""

from statetrace.api.actions import (
    compile,
    report,
    resolve_recipe,
    signatures,
    study,
    train,
)
from statetrace.api.loading import ZOO, load
from statetrace.api.model import TrackedModel
from statetrace.api.results import Result, Results, Signatures, StudyResults

__all__ = [
    "ZOO",
    "Result",
    "Results",
    "Signatures",
    "StudyResults",
    "TrackedModel",
    "compile",
    "load",
    "report",
    "resolve_recipe",
    "signatures",
    "study",
    "train",
]
