"""Attention, geometry and dynamics against a second, slow implementation in float64 numpy, on
random, compiled and trained models. It shares no code with the lenses: GPT-2 is written out again,
one sequence at a time, and so is every definition. (Other lenses: test_on_compiled, test_grid,
test_probes; attention trees: test_attention_tree; the prism: test_prism.)"""

from itertools import combinations, pairwise

import numpy as np
import pytest

import statetrace as st
from statetrace.lenses.attention import attention
from statetrace.lenses.compiled import task_of
from statetrace.lenses.dynamics import dynamics
from statetrace.lenses.geometry import geometry
from statetrace.lenses.specs import AttentionSpec, DynamicsSpec, GeometrySpec
from statetrace.models.compiled import compile_model
from statetrace.runs import Run
from statetrace.tasks.word_problem import word_problem
from tests.lenses.test_metamorphic import SPEC, random_model


def trained():
    model = st.load("zoo:s3-parallel", device="cpu")
    return model.model, model.task.at_length(6)


MODELS = {
    "compiled": lambda: (compile_model(SPEC), task_of(SPEC)),
    "random": lambda: (random_model(), task_of(SPEC)),
    "trained": trained,
}
ATTENTION = AttentionSpec(
    examples=25, first=3, relabelings=0, ablation_examples=25, ablation_sizes=(1, 2), controls=0
)


@pytest.fixture(scope="module", params=MODELS)
def subject(request):
    return MODELS[request.param]()


def run(model, tokens, replaced=None):
    """GPT-2 on one sequence: residual stream [L + 1, T, D], attention [L, H, T, T], outputs of the
    heads {(layer, head): [T, D / H]}, logits [T, V]. `replaced` are other outputs of some heads."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    config = model.config
    length, width = len(tokens), config.n_embd // config.n_head

    def linear(name, x):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def norm(name, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        scaled = centred / np.sqrt(variance + config.layer_norm_epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["transformer.wte.weight"][tokens] + weights["transformer.wpe.weight"][:length]
    stream, maps, heads = [x], [], {}
    for layer in range(config.n_layer):
        name = f"transformer.h.{layer}"
        q, k, v = np.split(linear(f"{name}.attn.c_attn", norm(f"{name}.ln_1", x)), 3, axis=-1)
        for head in range(config.n_head):
            columns = slice(head * width, (head + 1) * width)
            shares = np.zeros((length, length))
            for t in range(length):
                scores = k[: t + 1, columns] @ q[t, columns] / np.sqrt(width)
                shares[t, : t + 1] = np.exp(scores - scores.max())
                shares[t] /= shares[t].sum()
            maps.append(shares)
            heads[layer + 1, head] = shares @ v[:, columns]
            if replaced and (layer + 1, head) in replaced:
                heads[layer + 1, head] = replaced[layer + 1, head]
        joined = [heads[layer + 1, head] for head in range(config.n_head)]
        x = x + linear(f"{name}.attn.c_proj", np.concatenate(joined, axis=-1))
        x = x + linear(f"{name}.mlp.c_proj", activation(config, linear(
            f"{name}.mlp.c_fc", norm(f"{name}.ln_2", x))))  # fmt: skip
        stream.append(x)
    logits = norm("transformer.ln_f", x) @ weights["lm_head.weight"].T
    shape = (config.n_layer, config.n_head, length, length)
    return np.stack(stream), np.stack(maps).reshape(shape), heads, logits


def activation(config, x):
    if config.activation_function == "relu":
        return np.maximum(x, 0)
    assert config.activation_function in ("gelu_new", "gelu_pytorch_tanh")
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def tokens_of(task, sequences):
    return task.encode(sequences.actions).numpy()


def test_attention(subject):
    model, task = subject
    result = attention(model, task, ATTENTION)
    drawn, offset = task.draw(25, 0), task.vocabulary.offset
    odd = task.group.parity[drawn.actions] == 1  # [n, T]
    runs = [run(model, tokens) for tokens in tokens_of(task, drawn)]
    maps = [maps[:, :, offset:, offset:] for _, maps, _, _ in runs]
    layers, heads = maps[0].shape[:2]
    for layer, head in np.ndindex(layers, heads):
        scores = [score(maps[i][layer, head], odd[i]) for i in range(25)]
        (row,) = result.rows(measure="head score", layer=layer + 1, head=head)
        assert row["mean"] == pytest.approx(np.mean(scores), abs=1e-9)
        assert row["std"] == pytest.approx(np.std(scores, ddof=1), abs=1e-9)
    for layer in range(layers):
        counts = [effective(row) for each in maps for head in each[layer] for row in head]
        (row,) = result.rows(measure="attended", layer=layer + 1)
        assert row["mean"] == pytest.approx(np.mean(counts), abs=1e-4)
    ranked = [(head["layer"], head["head"]) for head in result.summary["top_heads"]]
    means = {site: np.mean([heads[site] for _, _, heads, _ in runs], axis=0) for site in ranked}
    zeros = {site: np.zeros_like(mean) for site, mean in means.items()}
    ways = {("none", None): {}}
    for size in (1, 2):
        for method, outputs in (("mean", means), ("zero", zeros)):
            ways[f"top {size}", method] = {site: outputs[site] for site in ranked[:size]}
    for (kind, method), replaced in ways.items():
        rows = result.rows(measure="ablation", heads=kind, method=method, length=None)
        assert {row["name"]: row["mean"] for row in rows} == pytest.approx(
            accuracy(model, task, drawn, replaced), abs=1e-9
        )


def score(weights, odd):
    """Appendix F: the share of prefixes whose odd actions get significantly more attention."""
    length, passed = len(odd), 0
    for t in range(ATTENTION.first, length + 1):
        row = weights[t - 1, :t]
        on_odd, on_even = row[odd[:t]], row[~odd[:t]]
        if len(on_odd) >= 2 and len(on_even):
            interval = 1.959963984540054 * on_odd.std(ddof=1) / np.sqrt(len(on_odd))
            passed += on_odd.mean() - 0.95 * interval > on_even.mean()
    return 100 * passed / (length - ATTENTION.first)


def effective(row):
    """The exponential of the entropy; the start marker gets the rest."""
    shares = [share for share in (*row, 1 - row.sum()) if share > 1e-300]
    return np.exp(-sum(share * np.log(share) for share in shares))


def accuracy(model, task, sequences, replaced):
    ids, parity, offset = list(task.vocabulary.elements), task.group.parity, task.vocabulary.offset
    states, parities = [], []
    for tokens, true in zip(tokens_of(task, sequences), sequences.states, strict=True):
        logits = run(model, tokens, replaced)[3][offset:, ids]
        answer = logits.argmax(-1)
        states.append(answer == true)
        parities.append(parity[answer] == parity[true])
    return {"state": np.mean(states), "parity": np.mean(parities)}


def test_geometry(subject):
    model, task = subject
    group, drawn = task.group, task.draw(150, 0)
    result = geometry(model, task, GeometrySpec(sequences=150, permutations=0))
    streams = [run(model, tokens)[0][:, -1] for tokens in tokens_of(task, drawn)]
    points, states = np.stack(streams, axis=1), drawn.states[:, -1]  # [L + 1, n, D]
    for layer, at in enumerate(points):
        means = np.stack([at[states == state].mean(0) for state in range(6)])
        expected = shares(group, at, states, means)
        found = {
            (row["measure"], row["name"]): row["value"]
            for row in result.rows(layer=layer)
            if row["value"] is not None
        }
        scale = np.abs(means - means.mean(0)).max()
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, abs=1e-4), (layer, key)
        pairs = [name for measure, name in found if measure == "within_distance" and "+" in name]
        assert len(pairs) == 3
        halves = {}
        for name in pairs:
            a, b = (means[group.labels.index(label)] for label in name.split("+"))
            distance = np.linalg.norm(a - b)
            assert found["within_distance", name] == pytest.approx(distance, rel=1e-3)
            halves[name] = (a + b) / 2
        across = means[group.parity == 1].mean(0) - means[group.parity == 0].mean(0)
        across /= np.linalg.norm(across)
        flat = {name: half - (half @ across) * across for name, half in halves.items()}
        for one, other in combinations(pairs, 2):
            distance = np.linalg.norm(flat[one] - flat[other])
            found_distance = found["between_distance", f"{one} {other}"]
            assert found_distance == pytest.approx(distance, rel=1e-3, abs=1e-4 * scale)


def shares(group, points, states, means):
    """Shares of variance, by measure and name."""
    counts = np.bincount(states, minlength=6)
    grand = points.mean(0)
    between = sum(counts[s] * ((means[s] - grand) ** 2).sum() for s in range(6))
    centred = means - means.mean(0)
    total = (centred**2).sum()
    sides = [centred[group.parity == side].mean(0) for side in (0, 1)]
    parity = 3 * sum((side**2).sum() for side in sides) / total
    singular = np.linalg.svd(points - grand, compute_uv=False) ** 2
    expected = {
        ("between_share", "state"): between / ((points - grand) ** 2).sum(),
        ("quotient_share", "parity"): parity,
        ("irrep_share", "sign"): parity,  # S3 has one other representation, of dimension 2
    }
    for number in range(3):
        expected["explained_variance", str(number + 1)] = singular[number] / singular.sum()
    for k in range(3):  # labels are in one-line notation: "position k" is the k-th digit
        for kind in ("object", "position"):
            classes = [where(label, k, kind, group.notation) for label in group.labels]
            explained = sum(
                classes.count(c) * (centred[np.array(classes) == c].mean(0) ** 2).sum()
                for c in set(classes)
            )
            expected["arrangement_share", f"{kind} {k + 1}"] = explained / total
    return expected


def where(label, k, kind, notation):
    """Of 312: object 1 moves to position 3 ("moves"), or position 1 receives object 3."""
    digit_is_position = notation == "moves"
    if (kind == "object") == digit_is_position:
        return int(label[k]) - 1
    return label.index(str(k + 1))


def test_dynamics(tmp_path):
    """Curves that rise, fall and rise again, so that every rule decides something."""
    rng, lengths = np.random.default_rng(0), 4
    steps = [10 * i for i in range(13)]
    curves = {what: np.clip(np.linspace(0, 1, 13)[:, None] * rng.uniform(0.8, 2, lengths)
                            + rng.normal(0, 0.15, (13, lengths)), 0, 1)
              for what in ("state", "parity")}  # fmt: skip
    losses = 2 - np.linspace(0, 1.5, 13) ** 2 + rng.normal(0, 0.05, 13)
    log = Run(tmp_path / "run")
    log.path.mkdir()
    log.write_info({"format": 1})
    for i, step in enumerate(steps):
        by_length = {what: curve[i].tolist() for what, curve in curves.items()}
        log.append({"kind": "evaluation", "step": step, "loss": losses[i],
                    "accuracy_by_length": by_length})  # fmt: skip
    spec = DynamicsSpec(run=str(log.path), thresholds=(0.5, 0.9), most_phases=3)
    result = dynamics(None, word_problem("S3", lengths), spec)
    for row in result.rows(measure="reached"):
        curve, threshold = curves[row["what"]][:, row["length"] - 1], row["threshold"]
        expected = None
        for i, accuracy in enumerate(curve):
            if accuracy >= threshold and (i == 12 or curve[i + 1] >= threshold):
                expected = steps[i]
                break
        assert row["step"] == expected
    lead = np.zeros((13, lengths))
    for i, t in np.ndindex(13, lengths):
        known = min(1, max(0, (curves["state"][i, t] - 1 / 6) / (5 / 6)))
        lead[i, t] = curves["parity"][i, t] - (known + (1 - known) / 2)
    rows = result.rows(measure="lead")
    assert [row["value"] for row in rows] == pytest.approx([np.mean(each) for each in lead])
    # at best parity is certain and the state known as well as that implies: 1 in 3
    most = 1 - (1 / 5 + 4 / 5 / 2)
    assert result.summary["lead"]["parity"] == pytest.approx({
        "largest": max(np.mean(each) for each in lead),
        "share": np.mean([max(lead[:, t]) for t in range(1, lengths)]) / most,
        "mean": np.mean(lead),
    })  # fmt: skip
    assert result.summary["phases"] == phases(steps, [losses, *(
        curve.mean(1) for curve in curves.values())], most=3)  # fmt: skip


def phases(steps, series, most):
    """The starts of the straight pieces, by trying every way to cut."""
    series = [(each - np.mean(each)) / np.std(each) for each in series]
    n, best = len(steps), (np.inf, [])
    for pieces in range(1, most + 1):
        tried = []
        for cuts in combinations(range(1, n), pieces - 1):
            edges = [0, *cuts, n]
            if min(np.diff(edges)) < 3:
                continue
            error = 0.0
            for start, end in pairwise(edges):
                x = np.arange(start, end)
                for each in series:
                    line = np.polyval(np.polyfit(x, each[start:end], 1), x)
                    error += ((each[start:end] - line) ** 2).sum()
            tried.append((error, edges[:-1]))
        error, starts = min(tried)
        observed = n * len(series)
        criterion = observed * np.log(error / observed)
        criterion += pieces * (2 * len(series) + 1) * np.log(observed)
        best = min(best, (criterion, starts))
    return [steps[start] for start in best[1]]
