"""Keep what came of a study as small text files, for results/.

    python -m reproduction.export runs/tiny-split --out results/tiny-split

writes study.json, results.csv and evidence.csv (studies/table.py), the run.json of every cell that
has finished to runs/, losses.csv (losses.py) and, where sequences grow by stages, stages.csv
(stages.py). No weights.

Cost: a second. Caveat: files of a study that was kept before are replaced, not added to.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pyarrow.csv as pc

from reproduction import losses, stages
from statetrace.runs import write_json
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.table import evidence, results, table_of


def keep_study(path: Path, out: Path) -> list[Path]:
    """The files written."""
    study = Study.existing(path)
    (out / "runs").mkdir(parents=True, exist_ok=True)
    written = [out / "study.json"]
    shutil.copyfile(path / "study.json", written[0])
    rows = results(study)
    for name, made in (("results", rows), ("evidence", evidence(study))):
        if made:
            written.append(out / f"{name}.csv")
            pc.write_csv(table_of(made), written[-1])
    for row in rows:
        if row["state"] == FINISHED:
            written.append(out / "runs" / f"{row['cell']}.json")
            write_json(written[-1], study.run(study.cell(row["cell"])).info)
    for name, kept in (("losses", losses), ("stages", stages)):
        lines = list(kept.rows(path))
        if lines:
            written.append(out / f"{name}.csv")
            with written[-1].open("w", newline="") as stream:
                writer = csv.DictWriter(stream, kept.COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)
    return written
