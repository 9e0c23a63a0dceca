"""The Python interface: load a model, analyze it, get a verdict, write a report.

    import statetrace as st

    model = st.load("zoo:s3-associative")
    model.analyze(["patching"], pairs=50)["patching"].plot()
    model.verdict()

Everything here is a thin layer over analysis.py, inspection/, training/, studies/ and the report.
The command line and the explorer call these functions.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.analysis import Analyzer, OnMessage, OnProgress, no_message, no_progress
from statetrace.config.external import HIDDEN, VISIBLE, ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.groups import Group, group_name
from statetrace.lenses.result import LensResult
from statetrace.runs import Run

if TYPE_CHECKING:
    import pandas

    from statetrace.config.recipe import Recipe
    from statetrace.lenses.loading import LoadedModel
    from statetrace.mechanisms.signatures import Signature
    from statetrace.reports.figures.chart import Chart
    from statetrace.reports.run_results import RunResults
    from statetrace.training.callback import Callback

ZOO = "zoo:"


def load(
    source: Any,
    *,
    group: str | Group | None = None,
    length: int | None = None,
    notation: str = "moves",
    tokens: Sequence[int] | None = None,
    start_marker: bool = True,
    start_token: int | None = None,
    form: str = "tokens",
    paraphrases: int | None = None,
    phrases: Mapping[str, Sequence[str]] | str | Path | None = None,
    padding: str | None = None,
    step: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    on_message: OnMessage = no_message,
) -> TrackedModel:
    """A model that knows its task, from any source.

    Args:
        source: a run folder, "zoo:NAME", a Hugging Face folder or model id, or a model in memory.
            The last three do not record their task, which `group`, `length` and the settings after
            them describe.
        group: the group it was trained on: a name such as "S3", a file, or a Group.
        length: actions per training sequence.
        notation: how to read 312: "moves" (object 1 moves to position 3) or "receives".
        tokens: token id of each element, in the order of the group's labels; by default 0, 1, 2...
        start_marker: whether sequences begin with a marker token.
        start_token: its id; by default the one after the last element.
        form: "tokens", one per action, or "text", read with the checkpoint's own tokenizer.
        paraphrases: for text, number of built-in paraphrases.
        phrases: for text, sentences of your own by label, or a JSON file of them.
        padding: for text, whether padding is "hidden" from the model or "visible".
        step: which checkpoint of a run; by default the newest undamaged one.
        device: "auto", "cpu" or "cuda".
        out: a run folder to keep results in; without one they are kept in memory. A run has its
            own folder.

    >>> import statetrace as st
    >>> st.load("zoo:s3-associative")
    TrackedModel(zoo:s3-associative: S3, length 24)
    """
    reading = {
        "group": group, "length": length, "tokens": tokens, "start_token": start_token,
        "paraphrases": paraphrases, "phrases": phrases, "padding": padding,
        "notation": None if notation == "moves" else notation,
        "form": None if form == "tokens" else form,
        "start_marker": None if start_marker else False,
    }  # fmt: skip
    reading = {name: value for name, value in reading.items() if value is not None}
    options = {"device": device, "on_message": on_message}
    if isinstance(source, str) and source.startswith(ZOO):
        _refuse(reading | ({} if step is None else {"step": step}), source)
        return _bundled(source.removeprefix(ZOO), out, **options)
    if isinstance(source, str | Path) and Run(Path(source)).exists():
        _refuse(reading | ({} if out is None else {"out": out}), str(source))
        return TrackedModel(Run(Path(source)), name=str(source), step=step, **options)
    if step is not None:
        raise StatetraceError(f"step {step} is for run folders; {_named(source)} is one checkpoint")
    if isinstance(source, str | Path):
        return _external(str(source), reading, out, **options)
    return _in_memory(source, reading, out, device)


def train(
    recipe: str | Path | Recipe | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    **settings: Any,
) -> TrackedModel:
    """Train a model and return it.

    Args:
        recipe: a TOML file or a Recipe; without one, settings start from the paper's.
        out: the run folder; without one, a temporary folder that lives as long as the model.
        resume: continue the run in `out`, bit for bit, if it has one.
        callback: is called at every step, evaluation and message (training/callback.py).
        settings: any option of `statetrace train`, such as group="S3", length=12, steps=500.
    """
    from statetrace.training.loop import train as run_training

    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="statetrace-")
        out = Path(temporary.name) / "run"
    states = settings.get("group")
    states = states if isinstance(states, Group) else None
    if states is not None:
        settings["group"] = group_name(states)
    resolved = resolve_recipe(recipe, Path(out), resume, settings)
    run_training(resolved, Run(Path(out)), callback, resume, states)
    model = TrackedModel(Run(Path(out)), name=str(out), device=resolved.training.device)
    model._temporary = temporary
    return model


def resolve_recipe(
    recipe: str | Path | Recipe | None, out: Path | None, resume: bool, settings: Mapping[str, Any]
) -> Recipe:
    """The recipe with `settings` in it; a run that is resumed has its own."""
    from statetrace.config.recipe import Recipe

    if recipe is None and resume and out is not None and Run(out).exists():
        recipe = Recipe.of(Run(out).recipe, f"{out}/run.json")
    if not isinstance(recipe, Recipe):
        recipe = Recipe() if recipe is None else Recipe.read(Path(recipe))
    return recipe.override(dict(settings))


def compile(  # the builtin is not used here
    algorithm: str = "associative",
    group: str | Group = "S3",
    length: int = 16,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> TrackedModel:
    """A transformer whose weights are computed so that it runs a known algorithm.

    Args:
        algorithm: "sequential", "parallel", "associative", "parity-associative", or "parity-only".
        out: a folder to save it in; it is a Hugging Face checkpoint and a run folder.
        options: any other option of `statetrace compile`, such as noise=0.01 or seed=3.

    >>> import statetrace as st
    >>> st.compile("associative", "S3", length=4).verdict().mechanism
    'associative'
    """
    from statetrace.config.compile_spec import CompileSpec
    from statetrace.lenses.compiled import save_compiled, task_of
    from statetrace.lenses.loading import LoadedModel
    from statetrace.models.compiled import compile_model

    names = [each.name for each in dataclasses.fields(CompileSpec)]
    for option in options:
        if option not in names:
            raise StatetraceError(f"compile has no option '{option}'; it has {', '.join(names)}")
    spec = CompileSpec(algorithm=algorithm, group=group, length=length, **options)  # type: ignore[arg-type]
    model = compile_model(spec)
    if out is not None:
        folder = Path(out)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StatetraceError(f"'{out}' already exists; choose another --out")
        return TrackedModel(save_compiled(model, spec, folder), name=str(out))
    return TrackedModel(LoadedModel(model, task_of(spec)), name=f"compiled {algorithm}")


def report(models: Iterable[TrackedModel | str | Path] | TrackedModel, path: str | Path) -> Path:
    """Write one HTML page with the verdicts and every figure, models side by side.

    Args:
        models: tracked models, run folders or study folders.
    """
    from statetrace.reports.page import write_report

    several = [models] if isinstance(models, TrackedModel | str | Path) else list(models)
    sources = [m._for_report() if isinstance(m, TrackedModel) else Path(m) for m in several]
    if Path(path).is_dir():
        raise StatetraceError(f"'{path}' is a folder; name a file, such as report.html")
    write_report(sources, Path(path))
    return Path(path)


def signatures(
    group: str | Group = "S3",
    length: int = 32,
    *,
    quotient: str | None = None,
    pairs: int = 200,
    seed: int = 0,
) -> Signatures:
    """What each algorithm would show under patching and probing; no model is involved.

    Args:
        quotient: what parity-associative counts first, if not parity.
        pairs: pairs of sequences for patching.

    >>> import statetrace as st
    >>> st.signatures("S3", length=8)["associative"].restores()
    [1, 2, 4, 8]
    """
    from statetrace.config.checks import check_seed
    from statetrace.groups import group as resolve_group
    from statetrace.mechanisms.signatures import predict_all

    check_seed("seed", seed)
    states = resolve_group(group)
    predictions = predict_all(states, length, pairs, seed, quotient)
    predicted = {name: p[1] for name, p in predictions.items() if not isinstance(p, str)}
    unavailable = {name: p for name, p in predictions.items() if isinstance(p, str)}
    return Signatures(states, length, predicted, unavailable)


class TrackedModel(Analyzer):
    """A model that knows its task. `st.load`, `st.train` and `st.compile` return one.

    Attributes:
        name: as it was loaded.
        run: its run folder, where results are kept; None for results in memory.
        group, length: the word problem.
    """

    def __init__(self, source: Run | LoadedModel, *, name: str, **options: Any) -> None:
        super().__init__(source, **options)
        self.name = name
        self._temporary: Any = None

    @property
    def model(self) -> Any:
        """The Hugging Face model."""
        return self.loaded.model

    @property
    def task(self) -> Any:
        """The word problem: draws sequences, encodes actions, knows the true states."""
        return self.loaded.task

    def __repr__(self) -> str:
        step = "" if self._asked_step is None else f", step {self._asked_step}"
        return f"TrackedModel({self.name}: {self.group.name}, length {self.length}{step})"

    def analyze(  # type: ignore[override]
        self,
        lenses: str | Iterable[str] | None = None,
        *,
        at_length: int | str | None = None,
        recompute: bool = False,
        on_progress: OnProgress = no_progress,
        **settings: Any,
    ) -> Results:
        """Run lenses on the model; all that apply to it by default.

        Args:
            lenses: names, such as ["patching", "probing"]; `statetrace analyze --help` lists them.
            at_length: actions per sequence where that is shorter than in training; "able" for the
                longest length that the model solves.
            recompute: compute again where an equal result is stored.
            settings: fields of the lenses' specs. `pairs=50` is for every lens that has it,
                `patching={"pairs": 50}` for one.

        >>> import statetrace as st
        >>> model = st.compile("associative", "S3", length=4)
        >>> results = model.analyze("generalization", sequences=200)
        >>> results["generalization"].summary["accuracy"]["state"]
        1.0
        >>> results["generalization"].to_pandas().columns[:3].tolist()
        ['what', 'length', 'accuracy']
        """
        names = self._lenses(lenses)
        analysis = super().analyze(
            names,
            self._settings(names, settings),
            at_length,
            recompute=recompute,
            on_progress=on_progress,
        )
        if not analysis.results:
            raise StatetraceError(_joined(analysis.failures))
        return Results(self, analysis.results, analysis.failures, analysis.length, analysis.folders)

    def report(self, path: str | Path) -> Path:
        """Write one HTML page with the verdict and every figure. Where nothing was measured yet,
        the verdict is computed first."""
        return report([self], path)

    # Reading and changing single runs

    @cached_property
    def session(self) -> Any:
        """The model with probes fitted and mean head outputs computed, for `look`."""
        from statetrace.inspection.session import make_session

        return make_session(self.loaded, self.name)

    def look(self, actions: Any, **changes: Any) -> Any:
        """Run the model on one sequence and read every layer and position.

        Args:
            actions: labels or element indices, one by one, or labels separated by commas.
            changes: `source` and `patches` (layer, first action, last action) to overwrite the
                residual stream with that of another sequence; `without` heads (layer, head), with
                `instead` "mean" or "zero".
        """
        from statetrace.inspection.look import look

        return look(self.session, actions, **changes)

    def patch(self, clean: Any, corrupted: Any, sites: str = "prefix", **options: Any) -> Any:
        """Patch pairs of sequences of your own: run the corrupted one with activations of the clean
        one, at every layer and position.

        Args:
            clean, corrupted: one sequence each, or as many: labels or element indices.
            sites: which positions a patch covers, "prefix", "suffix" or "window", or the name of a
                grid such as "window3-substitution-head".
        """
        from statetrace.inspection import patch

        return patch(self.loaded.model, self.loaded.task, clean, corrupted, sites, **options)

    # Details

    def _lenses(self, lenses: str | Iterable[str] | None) -> list[str]:
        from statetrace.lenses.registry import LENSES, chosen

        if lenses is None:
            return [name for name in LENSES if self.has_log or not LENSES[name].reads_log]
        names = lenses.split(",") if isinstance(lenses, str) else list(lenses)
        names = chosen(",".join(names))
        if not self.has_log and (logs := [name for name in names if LENSES[name].reads_log]):
            raise StatetraceError(f"'{self.name}' has no training log, which {logs[0]} reads")
        return names

    def _settings(
        self, names: Sequence[str], settings: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """By lens; a setting that no chosen lens has is refused."""
        from statetrace.lenses.registry import LENSES

        by_lens: dict[str, dict[str, Any]] = {name: {} for name in names}
        for setting, value in settings.items():
            if setting in LENSES and isinstance(value, Mapping):
                if setting not in names:
                    raise StatetraceError(f"settings for '{setting}', which is not among {names}")
                by_lens[setting] |= value
                continue
            owners = [
                name
                for name in names
                if setting in {each.name for each in dataclasses.fields(LENSES[name].spec)}
            ]
            if not owners:
                raise StatetraceError(f"none of the lenses {', '.join(names)} has a '{setting}'")
            for name in owners:
                by_lens[name][setting] = value
        return by_lens

    def _for_report(self) -> Path | RunResults:
        if self.run is not None:
            if not (self.run.path / "lenses").is_dir():
                self.verdict()
            return self.run.path
        verdict = self.verdict().to_dict()
        return self._results_in_memory(verdict)

    def _results_in_memory(self, verdict: dict[str, Any] | None = None) -> RunResults:
        from statetrace.reports.run_results import RunResults

        results = {lens: result for (lens, _), result in self.store._memory.items()}
        return RunResults(results, self.group, self.length, self.name, verdict)


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
            raise StatetraceError(f"{lens}: {self.failures[lens]}")
        return self._results[lens]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        lines = [f"{name}: {result.headline}" for name, result in self._results.items()]
        lines += [f"{name}: failed, {reason}" for name, reason in self.failures.items()]
        return "\n".join([f"Results({self._model.name})", *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        rows = {name: result.headline for name, result in self._results.items()} | self.failures
        return _html_table(f"{self._model.name}, length {self.length}", rows)

    @cached_property
    def _for_figures(self) -> RunResults:
        from statetrace.reports.run_results import RunResults

        model = self._model
        return RunResults(self._results, model.group, model.length, model.name)


@dataclass(frozen=True, repr=False)
class Result(LensResult):
    """The result of one lens, which draws itself."""

    _results: Results | None = field(default=None, compare=False)

    @staticmethod
    def of(result: LensResult, results: Results) -> Result:
        values = {each.name: getattr(result, each.name) for each in dataclasses.fields(LensResult)}
        return Result(**values, _results=results)

    @property
    def headline(self) -> str:
        """What to read first, in one sentence."""
        from statetrace.reports.headlines import headline

        return headline(self)

    def plot(self, figure: str | None = None, **options: str) -> Chart:
        """A figure; it shows itself in a notebook and has `.save(path)`.

        Args:
            figure: which one, where the lens has several; by default its main figure.
            options: choices of the figure, such as pairs="same parity".
        """
        from statetrace.reports.figures.catalogue import figures_of

        assert self._results is not None
        entries = {entry.name: entry for entry in figures_of(self.lens)}
        name = next(iter(entries), None) if figure is None else figure
        if name not in entries:
            raise StatetraceError(
                f"the lens '{self.lens}' has no figure '{name}': it has {', '.join(entries)}"
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
        return (
            f"{self.lens}: {self.headline}\n"
            f"  table: {rows:,} rows ({', '.join(self.columns)})\n"
            f"  arrays: {arrays}; summary: {', '.join(self.summary)}"
        )

    def _repr_html_(self) -> str:
        return (
            f"<p><b>{escape(self.lens)}</b>: {escape(self.headline)}</p>"
            + self.to_pandas().head(8).to_html(index=False)
        )


@dataclass(frozen=True, repr=False)
class Signatures(Mapping[str, "Signature"]):
    """Predictions by algorithm.

    Attributes:
        unavailable: algorithm -> why it does not exist for the group.
    """

    group: Group
    length: int
    _signatures: Mapping[str, Signature]
    unavailable: Mapping[str, str]

    def __getitem__(self, algorithm: str) -> Signature:
        if algorithm in self.unavailable:
            raise StatetraceError(self.unavailable[algorithm])
        return self._signatures[algorithm]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        lines = [f"{name}: {s.rows - 1} layers" for name, s in self._signatures.items()]
        lines += [f"{name}: unavailable" for name in self.unavailable]
        return f"Signatures({self.group.name}, length {self.length}; {'; '.join(lines)})"

    def to_pandas(self) -> pandas.DataFrame:
        """One tidy table for all algorithms."""
        import pandas

        return pandas.concat(
            [pandas.DataFrame(signature.table()) for signature in self._signatures.values()],
            ignore_index=True,
        )

    def plot(self, pairs: str = "opposite parity") -> Chart:
        """The heat map that patching prefixes would give, for every algorithm."""
        from statetrace.reports.figures.predicted import signatures

        return signatures(self.group, self.length, pairs=pairs)

    def _repr_html_(self) -> str:
        return str(self.plot()._repr_html_())


# Sources of `load`


def _bundled(name: str, out: str | Path | None, **options: Any) -> TrackedModel:
    from statetrace import zoo

    if out is not None:
        return TrackedModel(zoo.adopt(name, Path(out)), name=f"{ZOO}{name}", **options)
    from statetrace.lenses.loading import load_external

    external = zoo.external(name)
    loaded = load_external(Path(external.folder), external, options["device"])
    return TrackedModel(loaded, name=f"{ZOO}{name}")


def _external(
    source: str, reading: dict[str, Any], out: str | Path | None, **options: Any
) -> TrackedModel:
    """A Hugging Face folder, or a model id that is fetched into one."""
    from statetrace.lenses.loading import load_external
    from statetrace.models.checkpoint import locate

    _need_task(source, reading)
    folder = locate(source)
    external = _described(reading, folder)
    if out is None:
        return TrackedModel(load_external(folder, external, options["device"]), name=source)
    external = dataclasses.replace(external, folder=str(folder.resolve()))
    run = Run(Path(out))
    if not run.exists():
        load_external(folder, external, "cpu")  # refuses before anything is written
    external.describe(run)
    return TrackedModel(run, name=source, **options)


def _in_memory(
    model: Any, reading: dict[str, Any], out: str | Path | None, device: str
) -> TrackedModel:
    from statetrace.lenses.loading import read_model
    from statetrace.models.device import pick_device

    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise StatetraceError(
            f"{_named(model)} is not a model: give a run folder, zoo:NAME, a Hugging Face folder "
            "or model id, or a transformers model"
        )
    if out is not None:
        raise StatetraceError(f"out '{out}' needs a checkpoint on disk; save the model first")
    _need_task(_named(model), reading)
    if device != "auto":
        model = model.to(pick_device(device))
    return TrackedModel(read_model(model.eval(), _described(reading, None), None), name="in memory")


def _described(reading: dict[str, Any], folder: Path | None) -> ExternalCheckpoint:
    """Settings of `load` as an ExternalCheckpoint, contradictions refused."""
    text = {name: reading.pop(name, None) for name in ("paraphrases", "phrases", "padding")}
    given = [f"{name} {value}" for name, value in text.items() if value is not None]
    if reading.get("form", "tokens") != "text":
        if given:
            raise StatetraceError(f"{given[0]} is for form 'text'")
        return ExternalCheckpoint(**_tuples(reading))
    phrases, padding = text["phrases"], text["padding"]
    if phrases is not None and (text["paraphrases"] is not None or padding == VISIBLE):
        other = given[0] if text["paraphrases"] is not None else given[-1]
        raise StatetraceError(f"phrases '{phrases}' contradicts {other}; leave one of them out")
    if isinstance(phrases, str | Path):
        from statetrace.tasks.plain_text import read_wordings

        phrases = read_wordings(Path(phrases))
    # `statetrace train` writes training.json, and its models see their padding
    trained_here = folder is not None and (folder / "training.json").is_file()
    usual = VISIBLE if trained_here and phrases is None else HIDDEN
    return ExternalCheckpoint(
        **_tuples(reading),
        paraphrases=text["paraphrases"] or 1,
        phrases=phrases,
        padding=padding or usual,
    )


def _tuples(reading: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if k == "tokens" else v for k, v in reading.items()}


def _need_task(source: str, reading: Mapping[str, Any]) -> None:
    missing = [name for name in ("group", "length") if name not in reading]
    if missing:
        raise StatetraceError(
            f"'{source}' does not record its task: also give {' and '.join(missing)}"
        )


def _refuse(reading: Mapping[str, Any], source: str) -> None:
    if reading:
        name, value = next(iter(reading.items()))
        raise StatetraceError(f"{name} {value} is not needed: '{source}' records its task")


def _named(source: object) -> str:
    return repr(source) if isinstance(source, str | Path) else type(source).__name__


# Showing


def _joined(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{lens}: {reason}" for lens, reason in failures.items())


def _slug(control: str) -> str:
    return control.lower().replace(" ", "_")


def _html_table(title: str, rows: Mapping[str, str]) -> str:
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"
