"""REPRODUCTION.md, line by line: a pure function of results/, the recipes and the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from reproduction.claim import Answer, answer, size
from reproduction.claims import PARTS
from reproduction.figures.build import FOLDER, charts
from reproduction.measured import share_of
from reproduction.measures.studies import sizes
from reproduction.model_selection import recipe_of
from reproduction.results import Results, Row, study_file
from reproduction.rules import AGREES, DIFFERS, JUDGEMENTS, NOT_REACHED
from reproduction.settings_tables import analysis_table, training_table
from reproduction.speed import speed
from statetrace.studies.folder import FINISHED

MARKS = {AGREES: "✅ agrees", DIFFERS: "❌ differs", NOT_REACHED: "… not reached yet"}


def page(found: Results) -> str:
    """The whole page."""
    drawn = {name: chart.title.replace("\n", ", ") for name, chart in charts(found).items()}
    parts = {title: [answer(claim, found) for claim in claims] for title, claims in PARTS.items()}
    lines = [HEAD, *_summary(parts)]
    shown: set[str] = set()
    for title, answers in parts.items():
        lines += _part(title, answers, found, drawn, shown)
    return (
        "\n".join(
            lines
            + training_table(found, _link)
            + analysis_table(found)
            + _beyond(found)
            + speed(found)
            + [HOW]
        ).rstrip()
        + "\n"
    )


HEAD = """# The paper's claims, and what we measured

The claims with a number of *(How) Do Language Models Track State?* (Li, Guo and Andreas, 2025), in
our words, each beside our number. `make reproduce-report` builds this page from `results/`; it is
not edited by hand. AA is the associative, PAA the parity-associative mechanism.

How to read it:

- **Smaller models stand in** where nothing of the paper's size has been trained yet; such rows say
  *small*, and how small. A difference there may be one between sizes. As soon as there is a number
  of the paper's size it is the row's, even of few models; what many smaller ones say is then quoted
  beside it.
- **The paper's size is not the paper's model.** The paper begins with Pythia-160M as pretrained on
  the Pile, except where it says so; pretrained weights were not at hand. All of ours are from
  scratch, GPT-2 among them, with a start marker before the actions and a head for the task's words
  alone, computed in bfloat16, and stopped early ([what models were trained
  with](#what-models-were-trained-with-41)).
- **Numbers** come with 95% intervals where there are any (Wilson's for shares) and with what they
  were counted over. Rows about one model count its sequences or pairs, not models.
- ***Rule*** is what decides, in the units of our number (a share of 1 is 100%). Where an interval
  lies on both sides of a bound or is too wide to say, or there are too few observations, the claim
  is not reached yet. Where the paper gives no number to compare with, what counts as agreement is
  our choice, and the rule says *ours*; where it gives one, the margin (±) is still ours.
- **Which mechanism a model has** is said by the verdict ([how](docs/verdict.md)), which looks at
  cutoffs, among others: rows about cutoffs of "PAA models" or "AA models" are therefore less than
  independent evidence. The training log is independent of the verdicts of studies, which do not
  look at it.
- **Causes** of differences as far as they are known, and what was tried, stand below each table.
- **Words of this project**: a *lens* is one way to look into a model (patching, probing, depth,
  attention, geometry, generalization, dynamics); a *front* is how far a mechanism has come by a
  layer, the number of first actions that must be patched to bring the answer back; the *depth lens*
  asks after which layer an answer no longer changes; the *zoo* are small trained models that come
  with the package; a *cell* is one model of a study; the *log* of a run holds what it knew during
  training.
"""


HOW = """## Adding results

What came of a study, whether all of its cells have ended or not, is kept by

    python -m reproduction.export runs/STUDY --out results/STUDY

Rows read `small`, `small-regimes`, `small-groups`, `scratch` (of the paper's size; as soon as a
model of it has a verdict it goes before the small ones), `small-s5`, and those that begin with
`tiny`.

What the lenses saw of one model is kept by

    statetrace analyze zoo:s3-rotary --out runs/zoo/s3-rotary
    python -m reproduction.export runs/zoo/s3-rotary --out results/zoo/s3-rotary

and the same with any run folder. Models of the paper's size go before the zoo's, the one trained
longest first; they lie in `results/gpt2-associative`, `results/gpt2-parity-associative`, or the
same with `pythia-160m` (`gpt2-...-associative` does as well). Those of S5 lie in
`results/s5-associative` and `results/s5-parity-associative` (`s5-...-associative` does as well),
those from scratch that read sentences in `results/text-scratch-...`. A model that so far knows the
state up to length 30 is looked at and kept with

    statetrace analyze RUN --at-length 30     # or able, which finds the length
    python -m reproduction.export RUN --length 30 --out results/gpt2-associative

Folders that end in `-wide` were analyzed with

    --only probing --set probing.lengths=24 --set probing.controls= \\
        --set probing.train=50000 --set probing.test=10000

and those in `-loose` with `--only attention --set attention.weight=0.5`. Claims and their rules are
in `reproduction/claims/`.
"""


def _summary(parts: dict[str, list[Answer]]) -> list[str]:
    lines = [
        "## Summary",
        "",
        f"| part | {' | '.join(JUDGEMENTS)} | claims |",
        "|---|--:|--:|--:|--:|",
    ]
    whole: Counter[str] = Counter()
    for title, answers in parts.items():
        counts = Counter(one.judgement for one in answers)
        whole += counts
        cells = [str(counts[judgement]) for judgement in JUDGEMENTS]
        lines.append(f"| [{title}](#{_anchor(title)}) | {' | '.join(cells)} | {len(answers)} |")
    cells = [f"**{whole[judgement]}**" for judgement in JUDGEMENTS]
    lines.append(f"| **all** | {' | '.join(cells)} | **{whole.total()}** |")
    every = [one for answers in parts.values() for one in answers]
    decided = [one for one in every if one.judgement != NOT_REACHED]
    small = sum(one.small for one in decided)
    differing = [one.claim.name for one in every if one.judgement == DIFFERS]
    chosen = sum(one.claim.ours for one in every)
    lines += [
        "",
        f"{small} of the {len(decided)} decided claims were decided by models smaller than the "
        "paper's.",
        "",
        f"In {chosen} rows the bound is ours.",
        "",
        f"What differs: {_anchors(differing) or 'nothing'}.",
        "",
    ]
    return lines


def _anchors(names: list[str]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in names)


def _part(
    title: str, answers: list[Answer], found: Results, drawn: dict[str, str], shown: set[str]
) -> list[str]:
    """One table with its notes and its pictures (`drawn`: name to title), except those that were
    `shown` before."""
    lines = [
        f"## {title}",
        "",
        "| claim | paper | ours | rule | | picture, recipe, results |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(one, found, drawn) for one in answers]
    notes: dict[str, list[str]] = {}
    for one in answers:
        if one.note:
            notes.setdefault(one.note, []).append(one.claim.name)
    if notes:
        lines += ["", "Notes:", ""]
        lines += [f"- *{', '.join(names)}*: {note}" for note, names in notes.items()]
    for name in dict.fromkeys(one.claim.picture for one in answers):
        if name in drawn and name not in shown:
            shown.add(name)
            anchor = f'<a id="{_picture(name)}"></a>'
            lines += ["", f"{anchor}![{drawn[name]}]({FOLDER}/{name}.png)"]
    return [*lines, ""]


def _picture(name: str) -> str:
    """The anchor of a picture."""
    return f"picture-{name}"


def _row(one: Answer, found: Results, drawn: Container[str]) -> str:
    claim = one.claim
    ours = _ours(one, found)
    shown = [one]
    if one.beside is not None:
        ours += f". Smaller models ({one.beside.judgement}): {_ours(one.beside, found)}"
        shown.append(one.beside)
    sources = dict.fromkeys(source for each in shown for source in each.found.sources)
    links = [f"[picture](#{_picture(claim.picture)})"] if claim.picture in drawn else []
    links.append(_link(claim.recipe))
    studied = [recipe for recipe in _studied(sources, found) if recipe != claim.recipe]
    if claim.stand_in and not studied and not all(o.found.at_size for o in shown):
        studied = [claim.stand_in]
    links += map(_link, studied)
    links += map(_link, sources)
    cells = [
        f'<a id="{claim.name}"></a>*{claim.name}*: {claim.says} ({claim.where})',
        claim.paper,
        ours,
        claim.rule.text() + (" (*ours*)" if claim.ours else ""),
        MARKS[one.judgement],
        ", ".join(links),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _studied(sources: Iterable[str], found: Results) -> list[str]:
    """Recipes of the studies that made what was read."""
    recipes = dict.fromkeys(recipe_of(source.split("/")[1]) for source in sources)
    return [recipe for recipe in recipes if recipe and (found.root / recipe).is_file()]


def _ours(one: Answer, found: Results) -> str:
    """Our number, and of which models it is."""
    said = one.found.text()
    if one.small:
        return f"{said}. *Small: {one.found.size or size(found.root, one.claim.stand_in)}*"
    return f"{said}. *The paper's size: {one.found.size}*" if one.found.at_size else said


TINY = (
    ("tiny", "On a laptop: families and widths", ("model", "width")),
    ("tiny-orders", "On a laptop: the same weights, other data orders", ("width", "init_seed")),
    ("tiny-split", "On a laptop: one start from which the data order decides", ("width",)),
    ("tiny-regimes", "On a laptop: what is taught before", ("regime",)),
    ("tiny-split-regimes", "On a laptop: what is taught before, from that start", ("regime",)),
    ("tiny-control", "On a laptop: after random documents", ("regime",)),
    ("tiny-pythia", "On a laptop: what is taught a Pythia before", ("regime",)),
    ("tiny-s5", "On a laptop: S5 by four actions, and what is taught before", ("regime",)),
    ("tiny-text", "On a laptop: told in words", ("initialisation",)),
    ("tiny-groups", "On a laptop: other groups, by four actions each", ("group",)),
    ("tiny-recurrent", "On a laptop: Mamba", ("group",)),
)
"""Studies of very small models: folder, title, and what they vary."""


def _beyond(found: Results) -> list[str]:
    """Groups that are not in the paper, models for a laptop and, once there are any, recurrent
    models."""
    name, recipe = "small-groups", "recipes/studies/small-groups.toml"
    lines = ["## Beyond the paper: other groups", ""]
    if found.present((name,)):
        sized = size(found.root, recipe)
        lines += [f"Small: {sized} ({_link(recipe)}, {_link(study_file(name))}).", ""]
        lines += _outcomes(found.study(name), ("group",))
    else:
        lines += ["Nothing measured.", ""]
    for name, title, by in TINY:
        if found.present((name,)):
            rows, recipe = found.study(name), f"recipes/studies/{name}.toml"
            lines += [f"## {title}", ""]
            lines += [f"{sizes(rows)} ({_link(recipe)}, {_link(study_file(name))}).", ""]
            lines += _outcomes(rows, by)
    name = "small-recurrent"
    if found.present((name,)):
        rows = found.study(name)
        lines += ["## Beyond the paper: a recurrent model", ""]
        lines += [f"Small: {sizes(rows)} ({_link(study_file(name))}).", ""]
        lines += _outcomes(rows, ("model", "group"))
    return lines


def _outcomes(rows: list[Row], by: tuple[str, ...]) -> list[str]:
    """A table of how many cells ended, with which verdicts, and how many states they know."""
    verdicts = sorted({row["verdict"] for row in rows if row["state"] == FINISHED})
    heads = [*by, "ended", *verdicts, "states right"]
    ruled = "|" + "---|" * len(by) + "--:|" + "---|" * (len(verdicts) + 1)
    lines = [f"| {' | '.join(heads)} |", ruled]
    for levels in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        here = [row for row in rows if tuple(row[name] for name in by) == levels]
        ended = [row for row in here if row["state"] == FINISHED]
        cells = [
            share_of(
                sum(row["verdict"] == verdict for row in ended), len(ended), "models", ()
            ).text()
            for verdict in verdicts
        ]
        right = [f"{row['accuracy']:.0%}" for row in ended if row["accuracy"] is not None]
        said = [*map(str, levels), f"{len(ended)} of {len(here)}", *cells, ", ".join(right) or "–"]
        lines.append(f"| {' | '.join(said)} |")
    return [*lines, ""]


def _link(path: str) -> str:
    return f"[{path.removeprefix('recipes/').removeprefix('results/')}]({path})"


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
