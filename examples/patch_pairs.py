# %% [markdown]
# # Patching your own pairs
#
# Activation patching runs the model on a corrupted sequence and overwrites some activations with
# those of a clean one. The patching lens draws random pairs. Here the pairs are yours.

# %%
import numpy as np

import statetrace as st

model = st.load("zoo:s3-parity-associative", device="cpu")
clean = "213,132,321,123,231,312,132,213"
corrupted = "123,132,321,123,231,312,132,213"  # another first action: 213 is odd, 123 is even
one = model.patch(clean, corrupted)
one

# %% [markdown]
# One row per layer and position: how far the patch restores the clean answer. NLD is 0 for the
# corrupted answer and 1 for the clean one.

# %%
print(one.to_pandas()[["layer", "position", "nld", "answer"]].head())
one.plot()

# %% [markdown]
# Many pairs are as easy: arrays of element indices [pairs, length]. Half of these differ from their
# partner by a 3-cycle, which keeps parity, half by a swap, which flips it. Parity is settled in the
# first layer: after that, patching a short prefix brings back only the rest of the state.

# %%
rng = np.random.default_rng(0)
actions = rng.integers(6, size=(200, 12))
other = actions.copy()
swap, cycle = model.group.index("213"), model.group.index("231")
other[:100, 0] = model.group.table[cycle, actions[:100, 0]]
other[100:, 0] = model.group.table[swap, actions[100:, 0]]

same, opposite = model.patch(actions[:100], other[:100]), model.patch(actions[100:], other[100:])
print("mean NLD of a patched prefix of 4 actions, layers 0 to 6")
print("same parity    ", same.mean()[:, 3].round(2))
print("opposite parity", opposite.mean()[:, 3].round(2))

# %% [markdown]
# What does the model predict when a head is removed, and what can probes read from each layer?

# %%
view = model.look(clean, without=[(1, 0), (1, 1)], instead="mean")
print({label: round(probability, 3) for label, probability in view.answer().items()})
view.to_pandas().head()
