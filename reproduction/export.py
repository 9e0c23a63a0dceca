"""Copy a run or a study to results/.

    python -m reproduction.export runs/zoo/s3-rotary --out results/zoo/s3-rotary
    python -m reproduction.export runs/tiny-split --out results/tiny-split

The copy is a run or study folder, which `st.load`, `statetrace report` and the claims read like any
other. It has the files in KEPT, with the folder's own path replaced by ".", and the weights of
the newest checkpoint in bfloat16 where they take at most `--weights` bytes. What only resuming
needs is left out, and so are leases, failed attempts and figures.

Cost: seconds. Caveat: bfloat16 keeps three digits of a weight, so that answers may differ slightly
from those that lens results describe; it is computed in float32.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from statetrace import __version__
from statetrace.errors import StatetraceError
from statetrace.files import SEAL, digest, read_json, write_json, write_text
from statetrace.lenses.store import UNFINISHED
from statetrace.runs import CHECKSUMS, LOG, Run, source_commit
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.table import write_tables

KEPT = ("run.json", "group.json", "metrics.jsonl", "verdict.json", "lenses/**/*")
STUDY_KEPT = ("study.json", "results.csv", "evidence.csv", "outcomes/*.json", "early/*.json")
MOST = 20_000_000
RESUMING = frozenset({"optimizer.safetensors", "training.json", LOG, CHECKSUMS})
"""Files of a checkpoint that only resuming needs, and checksums, which are computed again."""


def export_run(path: Path, out: Path, weights: int = MOST, commit: str = "") -> list[Path]:
    """The files written.

    Args:
        weights: larger weights are left out, in bytes.
        commit: of the code that trained the model, if its source tree had no git.
    """
    run = Run.existing(path)
    if not any(path.glob("lenses/**/*.json")) and not run.checkpoints():
        raise StatetraceError(
            f"'{path}' has no lens results; run `statetrace analyze {path}` first"
        )
    written = _copy(path, out, KEPT)
    info = read_json(out / "run.json")
    if isinstance(info.get("foreign"), dict):
        info["foreign"].pop("folder", None)  # a path of this machine; bundled models are known
    known = {__version__: commit or __version__}
    if trained := info.get("versions", {}).get("commit"):
        info["versions"]["commit"] = known.get(trained, trained)
    results = known.get(source_commit(), source_commit())
    write_json(out / "run.json", {"results_commit": results} | info)
    newest = [
        (step, folder)
        for step, folder in run.checkpoints()[-1:]
        if (folder / "model.safetensors").stat().st_size / 2 <= weights
    ]
    return written + [file for step, folder in newest for file in _weights(folder, out, step)]


def export_study(path: Path, out: Path, weights: int = MOST, commit: str = "") -> list[Path]:
    """The files written; cells without an outcome are left out."""
    study = Study.existing(path)
    write_tables(study)
    written = _copy(path, out, STUDY_KEPT)
    for cell in study.plan.cells:
        outcome = study.outcome(cell)
        if outcome is not None and outcome["state"] == FINISHED:
            target = out / "cells" / cell.name
            written += export_run(study.run(cell).path, target, weights, commit)
    return written


def _copy(path: Path, out: Path, patterns: tuple[str, ...]) -> list[Path]:
    files = [
        file
        for pattern in patterns
        for file in sorted(path.glob(pattern))
        if file.is_file() and UNFINISHED not in file.parts
    ]
    written = []
    for file in files:
        target = out / file.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".json":
            text = file.read_text()
            for name in {str(path.resolve()), str(path)}:
                text = text.replace(json.dumps(name)[1:-1], ".")
            target.write_text(_without_weights(text))
        else:
            shutil.copyfile(file, target)
        written.append(target)
    return written


def _without_weights(text: str) -> str:
    """JSON without the checksum of the float32 weights that it describes, and without its own."""
    content = json.loads(text)
    if isinstance(content, dict) and content.pop(SEAL, None):
        text = json.dumps(content, indent=2) + "\n"
    for about in (content, content.get("subject")) if isinstance(content, dict) else ():
        if isinstance(about, dict) and isinstance(about.get("weights"), str):
            del about["weights"]
            text = json.dumps(content, indent=2) + "\n"
    return text


def _weights(folder: Path, out: Path, step: int) -> list[Path]:
    """The checkpoint in bfloat16, with checksums."""
    import torch
    from safetensors.torch import load_file, save_file

    target = Run(out).checkpoint(step)
    target.mkdir(parents=True, exist_ok=True)
    names = sorted(file.name for file in folder.iterdir() if file.name not in RESUMING)
    for name in names:
        shutil.copyfile(folder / name, target / name)
    weights = load_file(folder / "model.safetensors")
    half = {n: w.to(torch.bfloat16) if w.is_floating_point() else w for n, w in weights.items()}
    save_file(half, target / "model.safetensors", metadata={"format": "pt"})
    checksums = {name: digest(target / name) for name in names}
    write_text(target / CHECKSUMS, json.dumps(checksums, indent=2) + "\n")
    return [target / name for name in [*names, CHECKSUMS]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy a run or study to results/.")
    parser.add_argument("run", type=Path, help="a run folder, or a study folder")
    parser.add_argument("--out", type=Path, required=True, help="such as results/NAME")
    parser.add_argument(
        "--weights", type=int, default=MOST, metavar="BYTES", help="larger weights are left out"
    )
    parser.add_argument("--commit", default="", help="of the code, if its source tree had no git")
    arguments = parser.parse_args()
    try:
        export = export_study if (arguments.run / "study.json").is_file() else export_run
        export(arguments.run, arguments.out, arguments.weights, arguments.commit)
    except StatetraceError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
