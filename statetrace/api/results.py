"""Return types of the Python interface: mappings and tables with figures and notebook output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.errors import MissingError, StatetraceError
from statetrace.groups import Group
from statetrace.lenses.result import LensResult, folded

if TYPE_CHECKING:
    import pandas

    from statetrace.api.model import TrackedModel
    from statetrace.mechanisms.algorithms import Program
    from statetrace.mechanisms.signatures import Signature
    from statetrace.reports.figures.chart import Chart
    from statetrace.reports.run_results import RunResults
    from statetrace.reports.signatures import SignaturesFigure
    from statetrace.studies.folder import Study


class Results(Mapping[str, LensResult]):
    """Lens results by name.

    Attributes:
        failures: lens -> why it has no result.
        length: actions per sequence that the lenses analyzed.
        folders: where the results are saved; empty for results in memory.
    """

    def __init__(
        self,
        model: TrackedModel,
        results: Mapping[str, LensResult],
        failures: Mapping[str, str],
        length: int,
        folders: Sequence[Path],
    ) -> None:
        self._model, self.failures, self.length = model, dict(failures), length
        self.folders = list(folders)
        self._results = {name: Result.of(result, self) for name, result in results.items()}

    def __getitem__(self, lens: str) -> Result:
        if lens in self.failures:
            raise MissingError(f"{lens}: {self.failures[lens]}")
        if lens not in self._results:
            raise MissingError(f"there is no result of {lens!r}, only of {', '.join(self)}")
        return self._results[lens]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        lines = [f"{name}: {result.headline}" for name, result in self._results.items()]
        lines += [f"{name}: failed, {reason}" for name, reason in self.failures.items()]
        return folded([f"Results({self._model.name})", *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        rows = {name: result.headline for name, result in self._results.items()} | self.failures
        return _html_table(f"{self._model.name}, length {self.length}", rows)

    @cached_property
    def _for_figures(self) -> RunResults:
        from statetrace.reports.run_results import RunResults

        model = self._model
        results = RunResults(self._results, model.group, model.length, model.name)
        results.log = model.run if model.has_log else None
        return results


@dataclass(frozen=True, repr=False)
class Result(LensResult):
    """The result of one lens, with its figures."""

    _results: Results | None = field(default=None, compare=False)

    @staticmethod
    def of(result: LensResult, results: Results) -> Result:
        values = {each.name: getattr(result, each.name) for each in dataclasses.fields(LensResult)}
        return Result(**values, _results=results)

    @property
    def headline(self) -> str:
        """The main numbers in one sentence."""
        from statetrace.reports.headlines import headline

        return headline(self)

    def plot(self, figure: str | None = None, **options: str) -> Chart:
        """A figure, displayed in notebooks; `.save(path)` writes it to a file.

        Args:
            figure: its name, if the lens has several; by default the main figure.
            options: options of the figure, such as pairs="same parity".
        """
        from statetrace.reports.figures.catalogue import figures_of

        assert self._results is not None
        entries = {entry.name: entry for entry in figures_of(self.lens)}
        name = next(iter(entries), None) if figure is None else figure
        if name not in entries:
            raise StatetraceError(
                f"the lens '{self.lens}' has no figure '{name}'; use {', '.join(entries)}"
            )
        source = self._results._for_figures
        offered = {_slug(control): o for control, o in entries[name].choices(source).items()}
        for option, value in options.items():
            if option not in offered or value not in offered[option]:
                choices = "; ".join(f"{k}: {', '.join(v)}" for k, v in offered.items()) or "none"
                raise StatetraceError(
                    f"the figure '{name}' has no {option} = {value!r}; its options are {choices}"
                )
        chosen = [options.get(control, choices[0]) for control, choices in offered.items()]
        return entries[name].draw(source, *chosen)

    def __repr__(self) -> str:
        rows = len(next(iter(self.columns.values()), ()))
        arrays = ", ".join(self.arrays) or "none"
        arrays = arrays if len(arrays) < 60 else f"{len(self.arrays)} of them"
        return folded(
            [
                f"{self.lens}: {self.headline}",
                f"  table: {rows:,} rows ({', '.join(self.columns)})",
                f"  arrays: {arrays}; summary: {', '.join(self.summary)}",
            ]
        )

    def _repr_html_(self) -> str:
        return (
            f"<p><b>{escape(self.lens)}</b>: {escape(self.headline)}</p>"
            + self.to_pandas().head(8).to_html(index=False, float_format="{:.4g}".format)
        )


class Signatures(Mapping[str, "Signature"]):
    """Predictions by algorithm.

    Attributes:
        unavailable: algorithm -> why it does not exist for the group.
    """

    def __init__(
        self,
        group: Group,
        length: int,
        predictions: Mapping[str, tuple[Program, Signature] | str],
    ) -> None:
        self.group, self.length, self._predictions = group, length, dict(predictions)
        self._signatures = {n: p[1] for n, p in predictions.items() if not isinstance(p, str)}
        self.unavailable = {n: p for n, p in predictions.items() if isinstance(p, str)}

    def __getitem__(self, algorithm: str) -> Signature:
        if algorithm in self.unavailable:
            raise MissingError(self.unavailable[algorithm])
        if algorithm not in self._signatures:
            raise MissingError(f"unknown algorithm {algorithm!r}; use one of {', '.join(self)}")
        return self._signatures[algorithm]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        lines = [f"Signatures of {self.group.name} at length {self.length}"]
        lines += [f"  {name}: {s.layers}" for name, s in self._signatures.items()]
        return "\n".join(lines + [f"  {name}: unavailable" for name in self.unavailable])

    def to_pandas(self) -> pandas.DataFrame:
        """One tidy table for all algorithms."""
        import pandas

        return pandas.concat(
            [pandas.DataFrame(signature.table()) for signature in self._signatures.values()],
            ignore_index=True,
        )

    def plot(self, pairs: str | None = None) -> Chart:
        """The predicted heat map of prefix patching, for every algorithm.

        Args:
            pairs: "all", "same parity" or "opposite parity", which is the default where the group
                has a parity.
        """
        from statetrace.reports.figures.predicted import prefix_maps

        if pairs is None:
            pairs = "opposite parity" if self.group.parity is not None else "all"
        return prefix_maps(self._signatures, self.group, pairs)

    def figure(self) -> SignaturesFigure:
        """Figure 1 B to D of the paper: patching, probes and dependencies of every algorithm."""
        from statetrace.mechanisms.dependencies import dependencies
        from statetrace.reports.signatures import LONGEST_DIAGRAM, SignaturesFigure

        predictions = {n: p if isinstance(p, str) else p[1] for n, p in self._predictions.items()}
        diagrams = {
            name: dependencies(prediction[0], min(LONGEST_DIAGRAM, self.length))
            for name, prediction in self._predictions.items()
            if not isinstance(prediction, str)
        }
        title = f"Predicted signatures: {self.group.name}, length {self.length}"
        return SignaturesFigure(title, predictions, diagrams)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self.plot()._repr_mimebundle_(**options)

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


class StudyResults:
    """The tables of a study, which are also written into its folder.

    Attributes:
        path: the study folder.
        tables: "results", a row per cell; "evidence", "proportions" and "associations" if they
            have rows.
        failed: cell -> why it failed.
        damages: sentences about files that could not be read.
    """

    def __init__(self, study: Study) -> None:
        from statetrace.studies.table import write_tables

        self.path, self.damages = study.path, list(study.damages())
        self.tables = write_tables(study)
        rows = self.tables["results"]
        self.failed = {row["cell"]: row["why"] for row in rows if row["state"] == "failed"}

    def to_pandas(self, table: str = "results") -> pandas.DataFrame:
        """One of the tables as a data frame."""
        import pandas

        if table not in self.tables:
            raise StatetraceError(f"the study has no table '{table}'; use {', '.join(self.tables)}")
        return pandas.DataFrame(self.tables[table])

    def __repr__(self) -> str:
        verdicts: dict[str, int] = {}
        for row in self.tables["results"]:
            name = row["verdict"] or row["state"]
            verdicts[name] = verdicts.get(name, 0) + 1
        counts = ", ".join(f"{number} {name}" for name, number in verdicts.items())
        return f"StudyResults({self.path}: {len(self.tables['results'])} cells; {counts})"

    def _repr_html_(self) -> str:
        table = self.to_pandas().to_html(index=False, max_rows=20, float_format="{:.4g}".format)
        return f"<p>{escape(repr(self))}</p>{table}"


def _slug(control: str) -> str:
    return control.lower().replace(" ", "_")


def _html_table(title: str, rows: Mapping[str, str]) -> str:
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"
