"""Results made up for tests: studies, a model's tables and steps, in the formats of results/."""

import csv
import json

CELL = {
    "state": "finished",
    "group": "S3",
    "length": 20,
    "model": "gpt2",
    "layers": 6,
    "width": 64,
    "regime": None,
    "step": 10000,
    "steps": 10000,
    "verdict": "associative",
    "confidence": 0.9,
    "cutoff": 10,
    "parity_cutoff": 10,
    "accuracy": 0.9,
    "early_step": 5000,
    "early_verdict": "associative",
    "early_cutoff": 5,
    "early_parity_cutoff": 5,
}

STEP = {
    "model": "pythia-160m",
    "variant": "made up",
    "ms": 10.0,
    "tflops": 500,
    "gib": 3.0,
    "ratio": 20.0,
    "hardware": "a GPU",
    "versions": {"torch": "9.9"},
    "date": "2026-01-01",
}


def write_csv(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_study(root, name, verdicts, **changed):
    """A study with one finished cell per verdict; None for a cell that waits."""
    rows = [
        CELL
        | {"cell": f"made-{number}", "verdict": verdict, "early_verdict": verdict}
        | ({"state": "waiting"} if verdict is None else {})
        | changed
        for number, verdict in enumerate(verdicts)
    ]
    write_csv(root / "results" / name / "results.csv", rows)


def write_patching(root, model, fronts, length=8, opposite=None):
    """A map in which layer l needs the first fronts[l] actions; pairs of opposite parity may have
    fronts of their own."""
    by_split = {"all": fronts, "same parity": fronts, "opposite parity": opposite or fronts}
    rows = [
        {"where": "prefix", "what": "substitution", "layer": layer, "position": position,
         "split": split, "metric": "nld", "mean": float(position + 1 >= front), "std": 0.0, "n": 9,
         "median": float(position + 1 >= front)}
        for split, layers in by_split.items()
        for layer, front in enumerate(layers)
        for position in range(length)
    ]  # fmt: skip
    write_csv(root / "results" / model / "patching.csv", rows)


def write_json(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
