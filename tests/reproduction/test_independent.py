"""Rows of REPRODUCTION.md recomputed from the raw files, without the package.

Nothing here imports reproduction/: the numbers agree to the digits that the page prints.
"""

import csv
import itertools
import json
import math
import re
from collections import defaultdict
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

PAA_MODELS = ("pythia-160m-parity-associative", "pythia-160m-20k-parity-associative",
              "gpt2-parity-associative",
              "pythia-160m-second-parity-associative",
              "topics-pythia-160m/cells/pythia-160m_control_seed-2",
              "topics-pythia-160m/cells/pythia-160m_control_seed-3")  # fmt: skip
AA_MODELS = ("pythia-160m-long-associative", "gpt2-associative",
             "topics-gpt2/cells/gpt2_topic-1_seed-0",
             *(f"topics-pythia-160m/cells/pythia-160m_{cell}"
               for cell in ("topic-1_seed-1", "topic-1_seed-2", "topic-1_seed-3",
                            "topic-2_seed-3")))  # fmt: skip
RELEASED = [f"zoo/s3-{name}-released" for name in ("no-marker", "parity-associative", "rotary")]
LARGE_RELEASED = ["pythia-160m-20k-parity-associative-released"]
S3_STUDIES = ("small", "small-regimes", "tiny", "tiny-regimes", "tiny-control", "tiny-orders",
              "tiny-split", "tiny-split-regimes", "tiny-pythia")  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    return request.config.rootpath / "results"


@pytest.fixture(scope="module")
def page(request):
    return (request.config.rootpath / "REPRODUCTION.md").read_text()


def cells(page, label):
    """The columns "paper's size" and "small models" of a row; "" where its table lacks one."""
    above = page.partition(f"| {label}")[0].splitlines()
    row = next(line for line in page.splitlines() if f"| {label}" in line)
    header = next(line for line in reversed(above) if "| measured |" in line)
    names, values = ([cell.strip() for cell in line.split("|")] for line in (header, row))
    values = dict(zip(names, values, strict=True))
    return [values.get(name, "") for name in ("paper's size", "small models")]


def rows(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def lens_file(results, model, name):
    """RUN/lenses/NAME, or RUN/lenses/length-N/NAME for a model analyzed on shorter sequences."""
    (file,) = (results / model / "lenses").glob(f"**/{name}")
    return file


def lens_rows(results, model, lens):
    return pq.read_table(lens_file(results, model, f"{lens}.parquet")).to_pylist()


def prefix_map(results, model, split):
    grid = defaultdict(dict)
    for row in lens_rows(results, model, "patching"):
        if (row["where"], row["split"], row["metric"]) == ("prefix", split, "nld"):
            grid[int(row["layer"])][int(row["position"])] = float(row["mean"])
    return [[line[p] for p in sorted(line)] for _, line in sorted(grid.items())]


def restored_prefixes(grid):
    return [next((p + 1 for p, x in enumerate(line) if x >= 0.5), len(line)) for line in grid]


def halfway_bend(counts):
    end = counts.index(max(counts))
    start = max(layer for layer in range(end + 1) if counts[layer] <= counts[0])
    middle = (start + end) / 2
    below, above = counts[math.floor(middle)], counts[math.ceil(middle)]
    half = below + (above - below) * (middle - math.floor(middle))
    steps, doubling = (counts[start] + counts[end]) / 2, math.sqrt(counts[start] * counts[end])
    return (steps - half) / (steps - doubling)


def wilson(count, n):
    z, p = 1.959963984540054, count / n
    centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return [(centre + sign * spread) / (1 + z * z / n) for sign in (-1, 1)]


def share_text(count, n):
    def percent(x):
        return f"{100 * x:.0f}%" if x >= 0.1 else "0%" if x < 1e-12 else f"{x:.1%}"

    low, high = (min(max(end, 0.0), 1.0) for end in wilson(count, n))
    return f"{count} of {n} ({percent(low)} to {percent(high)})"


def growth_of_the_prefix(results, model):
    maps = [prefix_map(results, model, f"{kind} parity") for kind in ("same", "opposite")]
    balanced = [[(a + b) / 2 for a, b in zip(x, y, strict=True)]
                for x, y in zip(*maps, strict=True)]  # fmt: skip
    return f"{halfway_bend(restored_prefixes(balanced)):.3g}"


def restored_region(results, model, whole):
    same, opposite = (prefix_map(results, model, f"{kind} parity") for kind in ("same", "opposite"))
    inside = [
        (s + o) / 2
        for layer, (line_s, line_o) in enumerate(zip(same, opposite, strict=True))
        for s, o in list(zip(line_s, line_o, strict=True))[: -1 if whole else None]
        if (layer > 0 and min(s, o) >= 0.5 if whole else s >= 0.5 > o)
    ]
    return f"{sum(inside) / len(inside):.3g}"


half_restored_region = partial(restored_region, whole=False)
fully_restored_region = partial(restored_region, whole=True)


def settled_layer(grid):
    """The first layer at which the whole sequence is needed."""
    return restored_prefixes(grid).index(len(grid[0]))


def depth_of_parity(results, model):
    grid = prefix_map(results, model, "opposite parity")
    return f"{settled_layer(grid) / (len(grid) - 1):.3g}"


def layers_of_single_actions(results, model):
    counts = defaultdict(int)
    single = [r for r in lens_rows(results, model, "patching")
              if (r["where"], r["split"], r["metric"]) == ("window", "all", "nld")]  # fmt: skip
    last = max(int(r["position"]) for r in single)
    for r in single:
        counts[int(r["layer"])] += int(r["position"]) < last and abs(float(r["mean"])) >= 0.5
    line = [counts[layer] for layer in sorted(counts)]
    return str(sum(0 < b < a for a, b in itertools.pairwise(line)))


def probe(results, model, target, position, metric="accuracy"):
    about = lens_file(results, model, "patching.json").read_text()
    length = json.loads(about)["summary"]["length"]
    measured = [r for r in lens_rows(results, model, "probing")
                if (r["target"], r["position"], r["metric"]) == (target, position, metric)
                and int(r["length"]) <= length
                and r.get("control", "none") == "none"]  # fmt: skip
    longest = max(int(r["length"]) for r in measured)
    return {int(r["layer"]): float(r["mean"]) for r in measured if int(r["length"]) == longest}


def parity_over_all_positions(results, model):
    curve = probe(results, model, "parity", "any")
    return f"{100 * max(value for layer, value in curve.items() if layer < max(curve)):.0f}%"


def probability_of_a_third(results, model):
    parity = probe(results, model, "parity", "last")
    first = min(layer for layer, value in parity.items() if value >= 0.98)
    return f"{probe(results, model, 'state', 'last', 'probability')[first]:.3g}"


def second_best_head(results, model):
    table = lens_rows(results, model, "attention")
    return f"{sorted(r['mean'] for r in table if r['measure'] == 'head score')[-2]:.3g}%"


def parity_of_patched_answers(results, model):
    settled = settled_layer(prefix_map(results, model, "opposite parity"))
    arrays = load_file(lens_file(results, model, "patching.safetensors"))
    logits = arrays["prefix-substitution-resid.logits"].astype(float)
    odd = [0, 1, 1, 0, 0, 1]  # 123 132 213 231 312 321
    by_pair = []
    for pair, (clean, other) in enumerate(
        zip(arrays["clean_state"], arrays["corrupted_state"], strict=True)
    ):
        if odd[clean] == odd[other]:
            continue
        shares = []
        for cell in logits[settled:, :-1, pair].reshape(-1, 6):
            p = [math.exp(x - max(cell)) for x in cell]
            right = sum(x for x, parity in zip(p, odd, strict=True) if parity == odd[other])
            shares.append(right / sum(p))
        by_pair.append(sum(shares) / len(shares))
    return f"{sum(by_pair) / len(by_pair):.3g}"


def largest_deviation(results, model):
    deviations = [
        r["std"]
        for r in lens_rows(results, model, "probing")
        if (r["target"], r["position"], r["metric"]) == ("state", "all", "accuracy")
    ]
    return f"{max(deviations):.3g}"


@pytest.mark.parametrize(
    ("label", "measure", "models"),
    [
        ("AA: growth of the prefix", growth_of_the_prefix, AA_MODELS),
        ("PAA: restored where only same-parity", half_restored_region, PAA_MODELS),
        ("PAA: restored where pairs of both", fully_restored_region, PAA_MODELS),
        ("PAA, opposite parity: depth", depth_of_parity, PAA_MODELS),
        # deletions were not measured in the topic studies
        ("PAA: layers over which", layers_of_single_actions, PAA_MODELS[:4]),
        ("AA: the same over all positions", parity_over_all_positions, AA_MODELS),
        ("PAA: probability of the true state", probability_of_a_third, PAA_MODELS),
        ("PAA: score of the second-best head", second_best_head, PAA_MODELS),
        ("PAA, opposite parity: probability of the corrupted", parity_of_patched_answers, RELEASED),
        (
            "PAA, opposite parity: probability of the corrupted",
            parity_of_patched_answers,
            LARGE_RELEASED,
        ),
        ("PAA: largest standard deviation", largest_deviation, RELEASED),
        ("PAA: largest standard deviation", largest_deviation, LARGE_RELEASED),
    ],
)
def test_numbers_of_single_models(results, page, label, measure, models):
    """Claims 2, 4, 6, 8, 12, 15, 20, 9 and 14: each model in claims.csv, and the page's summary."""
    measured = [measure(results, model) for model in models]
    small = models is RELEASED
    table = rows(results.parent / "docs" / "reproduction" / "claims.csv")
    listed = [row for row in table if row["test"].startswith(label)
              and row["scale"] == ("small" if small else "paper")]  # fmt: skip
    assert [text(float(row["value"]), row["unit"]) for row in listed] == measured
    printed = cells(page, label)[small].split(": ")[-1].split(" (")[0].removesuffix(" layers")
    if len(measured) > 3:
        ends = sorted(measured, key=lambda text: float(text.rstrip("%")))
        measured = [f"{ends[0]} to {ends[-1]}"]
    assert printed == ", ".join(measured)


def text(value, unit):
    return f"{100 * value:.0f}%" if unit == "share" else f"{value:.3g}" + "%" * (unit == "%")


def study_rows(results, studies):
    """Finished models with a verdict and their lens distances, one per recipe."""
    seen = {}
    for study in sorted(studies):
        evidence = defaultdict(lambda: defaultdict(dict))
        file = results / study / "evidence.csv"
        for r in rows(file) if file.is_file() else ():
            evidence[r["cell"]][r["lens"]][r["of"]] = float(r["value"] or "nan")
        for r in rows(results / study / "results.csv"):
            if r["state"] == "finished" and r["verdict"] not in ("", "unlearned"):
                run = json.loads((results / study / "cells" / r["cell"] / "run.json").read_text())
                key = json.dumps(run["recipe"])
                seen.setdefault(key, r | {"lenses": evidence[r["cell"]], "run": run})
    return list(seen.values())


def label(distances):
    gap = distances["associative"] - distances["parity-associative"]
    return None if abs(gap) < 0.005 else "associative" if gap < 0 else "parity-associative"


def test_claim_25_equal_cutoffs_of_small_aa_models(results, page):
    passed = total = 0
    for r in study_rows(results, S3_STUDIES):
        if "patching" not in r["lenses"] or label(r["lenses"]["patching"]) != "associative":
            continue
        if r["verdict"] not in ("associative", "parity-associative"):
            continue
        if r["cutoff"] and int(r["cutoff"]) <= int(r["length"]):
            total += 1
            parity = int(r["parity_cutoff"]) if r["parity_cutoff"] else math.inf
            passed += abs(parity - int(r["cutoff"])) <= 0.05 * int(r["cutoff"])
    assert cells(page, "AA by patching alone: cutoffs")[1] == share_text(passed, total)


def test_claim_26_mean_cutoffs(results, page):
    ends = defaultdict(list)
    for r in rows(results / "tiny-split" / "results.csv"):
        ends[r["verdict"]].append(int(r["cutoff"]) if r["cutoff"] else int(r["longest"]) + 1)
    aa, paa = ends["associative"], ends["parity-associative"]
    gap = sum(aa) / len(aa) - sum(paa) / len(paa)
    printed = cells(page, "mean state cutoff")[1]
    assert printed.split()[0] == f"{gap:.3g}"
    assert printed.endswith(f"{len(aa)} AA, {len(paa)} PAA")


def test_claim_31_lockstep_of_small_aa_models(results, page):
    models = [(label(r["lenses"]["patching"]), r["lenses"]["dynamics"].get("parity lead"), r["run"])
              for r in study_rows(results, S3_STUDIES)
              if "patching" in r["lenses"]
              and r["verdict"] in ("associative", "parity-associative")]  # fmt: skip
    for line in (results / "calibration" / "trained.jsonl").read_text().splitlines():
        r = json.loads(line)
        run = results / "calibration" / "runs" / f"{r['name']}.json"
        if r["measures"] and run.is_file():
            found = label(r["measures"]["patching"])
            models.append((found, r["measures"].get("dynamics"), json.loads(run.read_text())))
    leads = [
        lead
        for verdict, lead, run in models
        if verdict == "associative" and lead is not None
        and not any(s.get("objective") == "parity" or s.get("auxiliary")
                    for s in run["recipe"].get("stage") or ())
    ]  # fmt: skip
    assert cells(page, "AA by patching alone: parity leads")[1] == share_text(
        sum(x < 0.1 for x in leads), len(leads)
    )


def test_claim_36_pythias_from_scratch(results, page):
    early = [r["early_verdict"] for r in rows(results / "scratch" / "results.csv")
             if r["model"] == "pythia-160m"]  # fmt: skip
    expected = share_text(early.count("parity-associative"), len(early))
    assert cells(page, "Pythia from scratch: PAA, by")[0] == expected


def test_claim_40_models_after_the_first_topic_table(results, page):
    small = ("small-regimes", "tiny-regimes", "tiny-pythia", "tiny-split-regimes")
    for column, studies in enumerate((("topics-gpt2", "topics-pythia-160m"), small)):
        verdicts = [r["verdict"] for r in study_rows(results, studies) if r["regime"] == "topic-1"]
        expected = share_text(verdicts.count("associative"), len(verdicts))
        assert cells(page, "after topic-1: AA by all lenses")[column] == expected


def test_claim_42_small_models_after_random_documents(results, page):
    """Each regime against the study from scratch that has its models."""
    after, before = (
        [r["verdict"] for study, regimes in named for r in rows(results / study / "results.csv")
         if r["state"] == "finished" and r.get("regime", "scratch") in regimes]
        for named in (
            [("small-regimes", ["control"]), ("tiny-control", ["control"]),
             ("tiny-split-regimes", ["control"])],
            [("tiny-control", ["scratch"]), ("tiny-split", ["scratch"])],
        )
    )  # fmt: skip
    before += [r["verdict"] for r in rows(results / "small" / "results.csv")
               if (r["model"], r["width"]) == ("gpt2", "256")]  # fmt: skip
    counts = [f"{group.count('associative')} of {len(group)}" for group in (after, before)]
    assert " against ".join(counts) in cells(page, "share of AA after random documents")[1]


def test_nothing_is_imported_from_reproduction():
    source = Path(__file__).read_text()
    assert not re.search(r"^\s*(from|import) reproduction", source, re.M)
