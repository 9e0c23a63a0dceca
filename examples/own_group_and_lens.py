# %% [markdown]
# # Your own group and lens
#
# Nothing in statetrace is specific to S3. Any finite group can be a task, and any measurement can
# be a lens. Both are registered from outside the package.

# %% [markdown]
# ## A group
# The quaternion group Q8, from two matrices over the integers modulo 3. Labels, table, quotients
# and the derived series are computed.

# %%
import statetrace as st

i, j = [[0, 2], [1, 0]], [[1, 1], [1, 2]]
q8 = st.Group.from_matrices([i, j], modulus=3, name="Q8")
print(q8.order, "elements; abelian:", q8.is_abelian())
print("quotients:", [quotient.name for quotient in q8.quotients()])

# %% [markdown]
# Which algorithms exist for it, and what do they predict?

# %%
st.register("group", "Q8", q8)
print(st.signatures("Q8", length=8))

# %% [markdown]
# ## A lens
# A lens is a function of a model, a task and its settings that returns a table. This one measures
# how confident the model is in its answer, by length.

# %%
from dataclasses import asdict, dataclass

import torch

from statetrace.lenses.registry import Lens
from statetrace.lenses.result import LensResult


@dataclass(frozen=True)
class ConfidenceSpec:
    sequences: int = 200
    seed: int = 0


def confidence(model, task, spec, progress):
    actions = torch.from_numpy(task.sample(spec.sequences, spec.seed).actions.astype("int64"))
    with torch.no_grad():
        logits = task.read_out(model(task.encode(actions)).logits)
    mean = logits.softmax(-1).amax(-1).mean(0).tolist()
    columns = {"length": list(range(1, len(mean) + 1)), "confidence": mean}
    return LensResult("confidence", asdict(spec), columns, summary={"last": mean[-1]})


st.register("lens", "confidence", Lens(ConfidenceSpec, confidence))

# %% [markdown]
# It runs beside the built-in lenses, on any model and from the command line.

# %%
model = st.load("zoo:s3-parallel", device="cpu")
results = model.analyze(["generalization", "confidence"], sequences=100)
print(results["confidence"].to_pandas().tail(3))
results
