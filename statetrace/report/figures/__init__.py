"""The figures of the paper for a run: one function each, from saved tables alone.

from statetrace.report.look import newest
from statetrace.report.figures import patching
patching(newest(Path("runs/demo")), pairs="same parity")      # shows itself in a notebook
"""

from statetrace.report.figures.after_stages import stages
from statetrace.report.figures.attention import attention_maps, attention_tree
from statetrace.report.figures.by_length import generalization
from statetrace.report.figures.layers_needed import depth
from statetrace.report.figures.learning import training
from statetrace.report.figures.patch_maps import patching
from statetrace.report.figures.predicted import signatures
from statetrace.report.figures.probing import probes, probes_by_length
from statetrace.report.figures.shape import geometry, measures
from statetrace.report.figures.study_parameters import study_sizes
from statetrace.report.figures.study_shares import study_cutoffs, study_proportions
from statetrace.report.figures.study_stages import study_lengths

__all__ = [
    "attention_maps",
    "attention_tree",
    "depth",
    "generalization",
    "geometry",
    "measures",
    "patching",
    "probes",
    "probes_by_length",
    "signatures",
    "stages",
    "study_cutoffs",
    "study_lengths",
    "study_proportions",
    "study_sizes",
    "training",
]
