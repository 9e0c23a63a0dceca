# %% [markdown]
# # From a group to a verdict
#
# A language model reads actions that rearrange a few objects and predicts their order after each
# one. How does it do that? This tour examines a small trained model, in ten cells and about a
# minute on one core. It runs as a script (`python examples/tour.py`) and as a notebook
# (`jupytext --to notebook examples/tour.py`), which displays the figures.

# %% [markdown]
# ## 1. A group
# The six ways to rearrange three objects. A label such as `213` says where each object goes: the
# first to position 2, the second to position 1. One rearrangement after another is a third one, and
# half of them are odd (an odd number of swaps).

# %%
import statetrace as st

s3 = st.group("S3")
for label, odd in zip(s3.labels, s3.parity, strict=True):
    print(label, "odd" if odd else "even")
print("213 and then 132 is", s3.labels[s3.product(["213", "132"])])

# %% [markdown]
# ## 2. What distinguishes the algorithms?
# Take two sequences that differ in their first action. Run the model on the second one, but
# overwrite its activations at the first positions, in one layer, with those of the first one. If
# the answer of the first sequence comes back, those positions held all that mattered. One action
# after the other, neighbours in pairs and pairs of pairs, or parity first: each algorithm has its
# own staircase. These are computed from the algorithms; no model is involved yet.

# %%
st.signatures("S3", length=24).plot(pairs="opposite parity")

# %% [markdown]
# ## 3. A model
# A small GPT-2 that is bundled with statetrace, trained on sequences of 24 actions. (`st.train`
# trains your own, `st.load("FOLDER", group="S3", length=24)` opens any Hugging Face checkpoint.)
# Results are stored in the folder `out`.

# %%
model = st.load("zoo:s3-parity-associative", out="runs/tour", device="cpu")
print(model, f"{sum(p.numel() for p in model.model.parameters()):,} parameters")

# %% [markdown]
# ## 4. The task
# The model sees actions and predicts their product so far after each of them.

# %%
drawn = model.task.sample(2, seed=0)
for actions, states in zip(drawn.actions, drawn.states, strict=True):
    print("actions", *(s3.labels[a] for a in actions[:8]), "...")
    print("states ", *(s3.labels[s] for s in states[:8]), "...")

# %% [markdown]
# ## 5. The first lens: how long a sequence can it solve?
# Accuracy drops beyond the training length. What matters is whether parity survives where the state
# is lost.

# %%
model.analyze("generalization")["generalization"].plot()

# %% [markdown]
# ## 6. Patching
# Now cell 2 with the real model. Pairs whose answers differ in parity are settled in the first
# layers, whatever the prefix: parity is computed early, and separately.

# %%
patching = model.analyze("patching", pairs=100, grids="prefix-substitution-resid")["patching"]
patching.plot(pairs="opposite parity")

# %% [markdown]
# ## 7. Probes
# What can a linear classifier read from the last token, layer by layer? Dashed: what the
# parity-associative algorithm predicts.

# %%
probing = model.analyze("probing", subsets=1, train=3000, test=1000, controls=())["probing"]
probing.plot(predicted_by="parity-associative")

# %% [markdown]
# ## 8. The geometry of the states
# Six states in three pairs form a triangular prism, with parity along its axis.

# %%
model.analyze("geometry", sequences=2000, permutations=100)["geometry"].plot()

# %% [markdown]
# ## 9. A model whose mechanism is known
# Can the lenses be trusted? Here is a transformer whose weights were computed, not trained: it runs
# the associative algorithm. The verdict should find it.

# %%
known = st.compile("associative", "S3", length=8).verdict()
print(f"compiled: {known.mechanism} (confidence {known.confidence:.0%})")

# %% [markdown]
# ## 10. The verdict
# Every lens scores every algorithm; lenses that have not run yet are run now. The report has all
# figures, opens from disk and can be sent to a colleague.

# %%
verdict = model.verdict()
print(f"trained: {verdict.mechanism} (confidence {verdict.confidence:.0%})")
for lens, evidence in verdict.evidence.items():
    print(f"  {lens}: {evidence['says']}")
print("report:", model.report("runs/tour/report.html"))
