"""Trained models of the calibration, and their labels from evidence that no verdict uses.

The rule, written down before the labels were computed. It was tried on compiled models, on those of
the package and on eight others, none of which is part of the calibration. A model is labeled at the
longest length that it solves, from interchanges of neighboring actions (interventions.py):

- The exposure of a link is the sum over layers of the share of answers that an interchange makes
  wrong, at the longest length and on average over positions. The rest is all that follows the
  coarsest quotient. Its reach at a length is the same sum, of each layer's most exposed position,
  relative to the largest share at that length: in how many layers the pairs are still apart.
- The quotient is counted if its exposure is at most 0.1: where actions are added up one by one, an
  interchange changes nothing. It is composed if its exposure is at least 0.3.
- The rest is composed if its reach grows by 0.25 to 1.5 layers for each doubling of the length. It
  is counted if its exposure is at least 0.3, its reach grows by at most 0.1, and no position has
  less than half the exposure of another: all are read in the same layers, at any length. In an
  abelian group it is counted if its exposure is at most 0.1.
- Quotient counted, rest composed: parity-associative. Both counted: parallel.
- Quotient composed: on its own if, after cutting some block, 1 + its longest solved length is at
  least twice that of the state, and if a swap of its subspace before the last block moves at least
  40% of the answers; with the state if neither. On its own and the rest composed:
  composed-quotient, whose rest may grow faster. With the state and the rest growing by at most
  1.5, beyond which it could be a fold in strides: associative.
- Without a quotient: associative if composed.
- All else is undecided, and so are models with a layer for every action, which could add them one
  by one, and those in which an interchange lowers most votes to the same share, as if another
  computation added its logits. Such models are kept, and neither fitted to nor counted as mistakes.

    python -m calibration.trained RUN [RUN ...] --out FILE [--checkpoints N] [--processes N]

appends a row per checkpoint, the newest of all runs first, and skips those that FILE has. With
--study STUDY it follows a study while it trains. Cost: about 10 s of one core per model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import statetrace as st
from calibration import interventions
from calibration.fitting import UNDECIDED, UNLEARNED
from calibration.measuring import Row, group_of, summary
from statetrace.analysis import Analyzer
from statetrace.groups import Group
from statetrace.mechanisms.mastery import solved_length
from statetrace.runs import Run
from statetrace.studies.folder import Study

NEVER, OFTEN = 0.1, 0.3
LEVEL, GROWING, STEEP = 0.1, 0.25, 1.5
ALL_POSITIONS = 0.5
SPARED, MOVED = 2.0, 0.4
SHORTEST = 6
"""Actions that a model must solve to be labeled."""

SHARED = 0.1
"""Share of the exposed cells in which most votes are lowered alike, from which two may answer."""

COUNTED, COMPOSED, STEEPER = "counted", "composed", "steeper"

Array = NDArray[np.float64]


def label(evidence: Mapping[str, Any] | None, group: Group) -> str:
    """By the rule above."""
    if evidence is None or _undecidable(evidence):
        return UNDECIDED
    quotients = [name for name in evidence["interchange"] if name != "state"]
    rest = _law_of_rest(evidence, [*quotients[1:], "state"], group)
    if not quotients:
        return "associative" if rest == COMPOSED else UNDECIDED
    exposed = exposure(evidence, quotients[:1]).mean()
    if exposed <= NEVER:
        return {COMPOSED: "parity-associative", COUNTED: "parallel"}.get(rest or "", UNDECIDED)
    own = _own(evidence, quotients) if exposed >= OFTEN else None
    if own:
        return "composed-quotient" if rest in (COMPOSED, STEEPER) else UNDECIDED
    return "associative" if own is False and rest != STEEPER else UNDECIDED


def _undecidable(evidence: Mapping[str, Any]) -> bool:
    lengths = {length for length, _ in evidence["pairs"]}
    if evidence["layers"] >= evidence["length"] - 1 or not {min(interventions.SHORT)} < lengths:
        return True
    alike, exposed = np.array(evidence[interventions.ALIKE]) > 0, _shares(evidence, None) > NEVER
    return bool((alike & exposed).sum() > SHARED * exposed.sum())


def _shares(evidence: Mapping[str, Any], links: Sequence[str] | None) -> Array:
    """[pairs, layers]: the share of answers that an interchange makes wrong in these links."""
    chosen = evidence["interchange"] if links is None else links
    total: Array = np.sum([evidence["interchange"][link] for link in chosen], axis=0)
    return total


def exposure(evidence: Mapping[str, Any], links: Sequence[str]) -> Array:
    """By position, at the longest length."""
    longest = np.array(evidence["pairs"])[:, 0] == evidence["length"]
    exposed: Array = _shares(evidence, links)[longest].sum(1)
    return exposed


def growth(evidence: Mapping[str, Any], links: Sequence[str]) -> float:
    """Layers of reach added per doubling of the length."""
    lengths, shares = np.array(evidence["pairs"])[:, 0], _shares(evidence, links)
    different = np.unique(lengths)
    reach = []
    for length in different:
        most = shares[lengths == length].max(0)
        relative = most / max(most.max(), NEVER)
        reach.append(relative[relative > NEVER].sum())
    return float(np.polyfit(np.log2(different), reach, 1)[0])


def _law_of_rest(evidence: Mapping[str, Any], links: Sequence[str], group: Group) -> str | None:
    exposed, grown = exposure(evidence, links), growth(evidence, links)
    if exposed.mean() <= NEVER:
        return COUNTED if group.is_abelian() else None
    if grown >= GROWING:
        return COMPOSED if grown <= STEEP else STEEPER
    everywhere = exposed.min() >= ALL_POSITIONS * exposed.max() and exposed.mean() >= OFTEN
    return COUNTED if grown <= LEVEL and everywhere else None


def _own(evidence: Mapping[str, Any], quotients: Sequence[str]) -> bool | None:
    """Whether a quotient is computed on its own; None where cut and swap disagree."""
    state = 1 + np.array(evidence["cut"]["state"])
    spared = max(((1 + np.array(evidence["cut"][q])) / state).max() for q in quotients)
    moved = max(max(evidence["subspace"][q]["swap"][:-1]) for q in quotients)
    own = spared >= SPARED
    return bool(own) if own == (moved >= MOVED) else None


def measured(source: str, step: int | None = None) -> Row:
    """A row; the lens results are computed in memory, so that the run folder stays as it is."""
    import torch

    torch.set_num_threads(1)
    began = time.process_time()
    loaded = st.load(source, step=step, device="cpu").loaded
    model = Analyzer(loaded)
    results = model.evidence()
    row: Row = {"name": name_of(source, step), "group": model.group.name, "length": model.length}
    row |= summary(results) | {"accuracy": results["generalization"].summary["accuracy"]}
    row |= {"label": UNLEARNED, "evidence": None}
    if row["links"] is not None:
        longest = solved_length(results["generalization"])
        if longest >= SHORTEST:
            row["evidence"] = interventions.measure(loaded.model, loaded.task, longest)
        row["label"] = label(row["evidence"], group_of(row))
    return row | {"seconds": round(time.process_time() - began, 1)}


def name_of(source: str, step: int | None) -> str:
    """ "study/cell@step", or the name of a single run."""
    name = "/".join(part for part in Path(source).parts[-3:] if part != "cells")
    return name if step is None else f"{name}@{step}"


def finished(
    runs: Sequence[str], study: str | None, newest: int, earlier: Sequence[int] = ()
) -> list[tuple[str, int | None]]:
    """Run folders and steps to measure, the newest checkpoint of each run first. `earlier` has the
    seeds of which more than one checkpoint is wanted; without any, all."""
    folders = list(runs)
    if study is not None and (Path(study) / "study.json").exists():
        opened = Study.existing(Path(study))
        ended = opened.ended()
        folders += [str(opened.run(cell).path) for cell in opened.plan.cells if cell.name in ended]
    wanted = {str(seed) for seed in earlier}
    steps = [[step for step, _ in Run(Path(folder)).checkpoints()][::-1] for folder in folders]
    return [
        (folder, of_run[age] if of_run else None)
        for age in range(newest)
        for folder, of_run in zip(folders, steps, strict=True)
        if age < max(len(of_run), 1)
        and (age == 0 or not wanted or folder.rpartition("seed-")[2] in wanted)
    ]


def rows(
    jobs: Callable[[], Sequence[tuple[str, int | None]]],
    over: Callable[[], bool],
    done: set[str],
    processes: int,
) -> Iterator[Row]:
    """A row per job, also of those that come up while it is not over."""
    pending: dict[Any, tuple[str, int | None]] = {}
    with ProcessPoolExecutor(processes) as pool:
        while True:
            last = over()
            for job in jobs():
                if len(pending) < processes and name_of(*job) not in done:
                    done.add(name_of(*job))
                    pending[pool.submit(measured, *job)] = job
            if not pending:
                if last:
                    return
                time.sleep(1)
            for future in wait(pending, timeout=1, return_when=FIRST_COMPLETED).done:
                try:
                    yield future.result()
                except Exception as error:
                    print(f"{name_of(*pending[future])}: {error}", flush=True)
                del pending[future]


def _over(study: str | None, trainer: int | None) -> bool:
    """Whether all cells of a study have ended, or the process that trains them."""
    if study is None or (trainer is not None and not Path(f"/proc/{trainer}").exists()):
        return True
    if not (Path(study) / "study.json").exists():
        return False
    opened = Study.existing(Path(study))
    return len(opened.ended()) == len(opened.plan.cells)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure trained models for the calibration.")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--study", help="a study folder to follow while it trains")
    parser.add_argument("--trainer", type=int, help="follow it only while this process id lives")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoints", type=int, default=1, help="newest checkpoints per run")
    parser.add_argument("--earlier", type=int, nargs="*", default=(), help="only of these seeds")
    parser.add_argument("--processes", type=int, default=1)
    of = parser.parse_args()
    lines = of.out.read_text().splitlines() if of.out.exists() else []
    done = {json.loads(line)["name"] for line in lines}
    jobs = partial(finished, of.runs, of.study, of.checkpoints, of.earlier)
    with of.out.open("a") as file:
        for row in rows(jobs, partial(_over, of.study, of.trainer), done, of.processes):
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
