# %% [markdown]
# # Your own checkpoint, to a verdict in ten lines
#
# Any Hugging Face causal language model will do, as long as its vocabulary has a token for each
# action. statetrace needs to know the word problem: the group, the length of training sequences,
# and whether a start marker comes first. Here a bundled checkpoint stands in for yours.

# %%
import statetrace as st
from statetrace.zoo import checkpoint

folder = checkpoint("s3-no-marker")  # the path of your checkpoint, or its id on the hub

model = st.load(folder, group="S3", length=24, start_marker=False)
verdict = model.verdict()
verdict

# %% [markdown]
# The verdict has the probability of each algorithm and the evidence of each lens. Below 50% it is
# called "mixed", and a model that fails on sequences of four actions "unlearned".

# %%
print(verdict.mechanism)
for algorithm, probability in verdict.probabilities.items():
    print(f"  {algorithm}: {probability:.2f}")
for lens, evidence in verdict.evidence.items():
    print(f"{lens}: {evidence['says']}")

# %% [markdown]
# Results of every lens are tidy tables, with figures of their own. A model in memory works the
# same way: `st.load(my_model, group="S3", length=24, start_marker=False)`.

# %%
results = model.analyze(["generalization", "depth"], pairs=100)
print(results["depth"].to_pandas().head())
results["depth"].plot()

# %%
model.report("own-checkpoint.html")
