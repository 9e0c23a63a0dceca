# %% [markdown]
# # From a group to a verdict
#
# A language model reads actions that reshuffle a few objects and says after each one in which order
# they stand. How does it do that? This tour asks a small trained model, in ten cells and about half
# a minute on one core. It runs as a script (`python examples/tour.py`) and as a notebook
# (`jupytext --to notebook examples/tour.py`); in a notebook the figures show themselves.

# %% [markdown]
# ## 1. A group
# The six ways to rearrange three objects. A label such as `213` says where each object goes: the
# first to place 2, the second to place 1. Doing one rearrangement and then another is a third one,
# and half of them are odd (an odd number of swaps).

# %%
from statetrace.groups import group

s3 = group("S3")
for label, odd in zip(s3.labels, s3.parity, strict=True):
    print(label, "odd" if odd else "even")
print("213 and then 132 is", s3.labels[s3.product(["213", "132"])])

# %% [markdown]
# ## 2. A task
# The model sees actions, and has to say their product so far after each of them.

# %%
from statetrace.tasks.word_problem import word_problem

drawn = word_problem("S3", length=6).sample(2, seed=0)
for actions, states in zip(drawn.actions, drawn.states, strict=True):
    print("actions", *(s3.labels[a] for a in actions))
    print("states ", *(s3.labels[s] for s in states))

# %% [markdown]
# ## 3. What would give an algorithm away?
# Take two sequences that differ in their first action. Run the model on the second one, but
# overwrite what it holds in its first places, at one layer, with what it held for the first one. If
# the answer comes back, those places held all that mattered. One action after the other, neighbours
# in pairs and pairs of pairs, or parity counted first: each algorithm has its own staircase. These
# are computed from the algorithms themselves; no model has been looked at yet.

# %%
from statetrace.report.figures.predicted import signatures

signatures("S3", length=24, pairs="opposite parity")

# %% [markdown]
# ## 4. A model
# A small GPT-2 that comes along, trained on sequences of 24 actions. (`statetrace train` makes your
# own.) Everything that is found out about it goes into one folder.

# %%
from pathlib import Path

from statetrace.lenses.loading import load_run
from statetrace.zoo import adopt

run = adopt("s3-parity-associative", Path("runs/tour"))
subject = load_run(run, None, "cpu")
model, task = subject.model, subject.task
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

# %% [markdown]
# ## 5. The first lens: how far does it get?
# A lens looks at a model and a task and returns tables. Figures are drawn from what was saved. The
# share of right answers falls behind the length it was trained on; what matters is whether parity
# goes on where the state has been lost.

# %%
from dataclasses import replace

from statetrace.lenses.registry import LENSES
from statetrace.mechanisms.collect_evidence import QUICK
from statetrace.report.figures.generalization import generalization
from statetrace.report.run_results import newest

results = {}


def look_through(lens, spec=None):
    """Look at the model through one lens, and keep what it saw."""
    result = LENSES[lens].look(model, task, spec or QUICK[lens])
    replace(result, subject=subject.about()).save(run.path / "lenses")
    results[lens] = result
    return newest(run.path)


generalization(look_through("generalization"))

# %% [markdown]
# ## 6. Patching
# Now cell 3 with the real model. Pairs whose answers differ in parity are settled in the first
# layers, whatever the prefix: parity is counted early, and on its own.

# %%
from statetrace.report.figures.patching import patching

patching(look_through("patching"), pairs="opposite parity")

# %% [markdown]
# ## 7. Probes
# What can a linear reader tell from the last token, layer by layer? Behind the measured curves lie
# those that the parity-associative algorithm predicts.

# %%
from statetrace.report.figures.probing import probes

probes(look_through("probing"), predicted_by="parity-associative")

# %% [markdown]
# ## 8. The shape of the states
# Six states, three pairs: a triangular prism, with parity along its axis.

# %%
from statetrace.lenses.geometry import GeometrySpec
from statetrace.report.figures.geometry import geometry

geometry(look_through("geometry", GeometrySpec(sequences=2000, permutations=100)))

# %% [markdown]
# ## 9. A model whose mechanism is known
# Are the lenses to be trusted? Here is a transformer whose weights were computed, not trained: it
# runs the associative algorithm. The verdict should say so.

# %%
from statetrace.config.compile_spec import CompileSpec
from statetrace.mechanisms.collect_evidence import collect_evidence
from statetrace.mechanisms.verdict import verdict
from statetrace.models.compiled import compile_model

known = compile_model(CompileSpec("S3", "associative", 8))
checked = verdict(collect_evidence(known, word_problem("S3", length=8)), s3)
print(f"compiled: {checked.says} (confidence {checked.confidence:.0%})")

# %% [markdown]
# ## 10. The verdict
# Two more lenses, and every one of them scores every algorithm. The page that is written at the end
# has all figures, opens from disk and can be sent to a colleague.

# %%
from statetrace.lenses.attention import AttentionSpec
from statetrace.report.page import write_report
from statetrace.runs import write_json

look_through("depth")
look_through("attention", AttentionSpec())
judged = verdict(results, s3)
print(f"trained: {judged.says} (confidence {judged.confidence:.0%})")
for lens, found in judged.evidence.items():
    print(f"  {lens}: {found['says']}")
write_json(run.path / "verdict.json", judged.as_json())
write_report([run.path], run.path / "report.html")
print("report:", run.path / "report.html")
