"""Results that are still to come: the page takes them as they arrive, half of them, or none."""

import dataclasses
import json
import re
import shutil

import pytest

from reproduction.claim import answer, unmeasured
from reproduction.claims import CLAIMS
from reproduction.export import keep
from reproduction.figures.build import FOLDER, PICTURES, charts, draw_all
from reproduction.measures import probing as of_probing
from reproduction.model_selection import A, P, about, first, steps_of
from reproduction.page import page
from reproduction.results import Missing, Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED
from statetrace.config.recipe import Recipe
from statetrace.lenses.loading import load_run
from statetrace.lenses.registry import LENSES, make_spec
from statetrace.runs import Run
from statetrace.studies.table import results as study_rows
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from statetrace.zoo import adopt
from tests.reproduction.made import write_csv, write_json, write_patching, write_study
from tests.studies.conftest import undisturbed

AA, PAA = "associative", "parity-associative"
NAMED = {claim.name: claim for claim in CLAIMS}
STEPS, LENGTH, SHORTER = 6, 8, 6
ARRIVING = r"scratch|small-s5|tiny-s5|small-recurrent|(gpt2|pythia-160m|s5|text)-.*"
"""Folders of results/ that these tests make."""
TINY = {
    "task": {"group": "S5", "length": LENGTH, "sequences": 4000},
    "model": {"name": "gpt2", "layers": 2, "width": 16, "heads": 2},
    "training": {"steps": STEPS, "batch": 8, "device": "cpu"},
    "evaluation": {"evaluate_every": 2, "evaluate_sequences": 20},
    "checkpoint": {"checkpoint_every": STEPS},
}
LOOK = {
    "generalization": {"sequences": "100", "bootstrap": "10"},
    "patching": {"pairs": "12", "length": str(SHORTER)},
    "probing": {"length": str(SHORTER), "train": "1300", "test": "100", "subsets": "2"},
    "depth": {"pairs": "6", "lengths": f"2,4,{SHORTER}"},
    "attention": {"examples": "20", "last": str(SHORTER), "ablation_sizes": ""},
    "geometry": {"sequences": "600", "length": str(SHORTER), "permutations": "5"},
    "dynamics": {},
}
"""All lenses, at a shorter length than the model is trained on."""


def look(run, lenses, **subject):
    found = load_run(run, device="cpu")
    for name in lenses:
        words = LOOK[name] | ({"controls": ""} if name == "probing" else {})
        words |= {"run": str(run.path)} if LENSES[name].reads_log else {}
        result = LENSES[name].look(found.model, found.task, make_spec(name, words))
        about = found.about() | subject
        dataclasses.replace(result, subject=about).save(run.path / "lenses")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Folders as `keep` writes them: of a run of S5, and of a model of S3 from the zoo that is made
    to look as if it were GPT-2 of the paper's size in the middle of its training."""
    folder = tmp_path_factory.mktemp("kept")
    run = Run(folder / "run")
    train(Recipe.of(TINY), run, Callback())
    look(run, LOOK)
    keep(run.path, folder / "S5")
    model = adopt(P, folder / "model")
    look(model, [name for name in LOOK if name != "dynamics"], step=STEPS)
    keep(model.path, folder / "S3")
    recipe = json.loads((folder / "S5" / "run.json").read_text())["recipe"]
    recipe["model"] |= {"layers": None, "width": None, "heads": None}
    recipe["task"] |= {"group": "S3", "length": 100}
    recipe["training"]["steps"] = 140_625
    (folder / "S3" / "run.json").write_text(json.dumps({"format": 1, "recipe": recipe}))
    return folder


@pytest.fixture(scope="module")
def quick_rows(tmp_path_factory):
    """What the table says of a study whose cells end at the early look, by cutoffs alone."""
    study = undisturbed(tmp_path_factory.mktemp("quick"), rules="train_on = false", steps=30)
    return study_rows(study)


@pytest.fixture
def project(tmp_path, request):
    """The project's results without those that are still to arrive, whether they have or not;
    folders can be added and taken away."""
    root = request.config.rootpath
    for name in ("recipes", "statetrace"):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "results" / "zoo").mkdir(parents=True)
    for folder in [*(root / "results").iterdir(), *(root / "results" / "zoo").iterdir()]:
        if folder.name != "zoo" and not re.fullmatch(ARRIVING, folder.name):
            (tmp_path / folder.relative_to(root)).symlink_to(folder)
    return tmp_path


def scratch(project, rows, verdicts):
    """results/scratch of the paper's size; verdicts by family, None for cells that wait."""
    empty = ("step", "verdict", "quick_verdict", "accuracy", "cutoff", "parity_cutoff",
             "early_step", "early_verdict", "early_cutoff", "early_parity_cutoff")  # fmt: skip
    made = []
    for model, given in verdicts.items():
        for seed, verdict in enumerate(given):
            row = rows[0] | {"cell": f"{model}_seed-{seed}", "model": model, "length": 100}
            row |= {"layers": None, "width": None, "seed": seed, "step": 10000, "accuracy": 0.5}
            row |= {"verdict": verdict, "quick_verdict": verdict, "early_verdict": verdict}
            row |= {"early_step": 10000, "cutoff": 30, "early_cutoff": 30}
            beyond = 30 if verdict == AA else 60
            row |= {"parity_cutoff": beyond, "early_parity_cutoff": beyond}
            if verdict is None:
                row |= dict.fromkeys(empty) | {"state": "waiting"}
            made.append(row)
    write_csv(project / "results" / "scratch" / "results.csv", made)


def rows_of(found):
    return dict(re.findall(r'^\| <a id="([\w-]+)"></a>(.*)$', page(found), re.M))


def test_a_quick_study_has_the_columns_that_are_read(quick_rows):
    for row in quick_rows:
        assert row["state"] == "finished"
        assert row["confidence"] is None  # by which a verdict from cutoffs alone is told
        assert row["verdict"] == row["quick_verdict"] == row["early_verdict"]
        assert row["step"] == row["early_step"] == 10


@pytest.mark.parametrize(
    ("gpt2", "judgement", "said"),
    [
        ([PAA, None, None, None, None, None], NOT_REACHED, "n = 1 model; 0 of 1; by cutoffs"),
        ([AA, AA, PAA, PAA, None, None], NOT_REACHED, "**50%** (15% to 85%), n = 4 models"),
        ([PAA] * 6, DIFFERS, "**0%** (0% to 39%), n = 6 models; 0 of 6; by cutoffs at step 10,000"),
    ],
)
def test_the_papers_size_goes_first(project, quick_rows, gpt2, judgement, said):
    """With its interval whatever n is; small models are quoted beside it."""
    before = answer(NAMED["gpt2-scratch"], Results(project))
    assert before.small
    scratch(project, quick_rows, {"gpt2": gpt2, "pythia-160m": [None] * 6})
    found = Results(project)
    one = answer(NAMED["gpt2-scratch"], found)
    assert (one.judgement, one.small, one.found.at_size) == (judgement, False, True)
    assert one.beside == before
    row = rows_of(found)["gpt2-scratch"]
    assert said in row
    assert "*The paper's size: gpt2, S3, length 100*. Smaller models (differs): **0%**" in row
    assert "](results/scratch/results.csv), [small/results.csv](results/small/results.csv)" in row
    assert answer(NAMED["pythia-scratch"], found).small  # of which nothing has ended
    assert answer(NAMED["family"], found).small


def test_a_study_without_a_verdict_changes_no_number(project, quick_rows):
    before = rows_of(Results(project))
    scratch(project, quick_rows, {"gpt2": [None] * 6, "pythia-160m": ["unlearned"] * 6})
    assert rows_of(Results(project)) == before


def test_both_families_at_the_papers_size(project, quick_rows):
    scratch(project, quick_rows, {"gpt2": [AA, PAA] * 3, "pythia-160m": [PAA] * 6})
    found = Results(project)
    family = answer(NAMED["family"], found)
    assert (family.found.value, family.found.n, family.judgement) == (-0.5, 12, AGREES)
    assert answer(NAMED["pythia-scratch"], found).judgement == AGREES
    one = answer(NAMED["paa-cutoffs"], found)
    assert (one.found.at_size, one.found.n, one.judgement) == (True, 9, AGREES)
    assert "verdicts by accuracy alone, at step 10,000" in one.found.words
    for name in ("two-phases", "lockstep"):  # nothing was trained on after an early look
        assert not answer(NAMED[name], found).found.at_size
    drawn = charts(found)
    for name in ("proportions", "cutoffs"):
        small, large = (panel.title for panel in drawn[name].panels)
        assert small.startswith("small models")
        assert large.startswith("the paper's size")


def test_cutoffs_alone_cannot_show_that_there_are_no_others(project, quick_rows):
    """They know two mechanisms; and what stopped early was not told early."""
    scratch(project, quick_rows, {"gpt2": [AA, PAA] * 3})
    for name in ("two-mechanisms", "no-sequential", "no-parallel", "early"):
        assert not answer(NAMED[name], Results(project)).found.at_size
    rows = [row | {"confidence": 0.9} for row in Results(project).study("scratch")]
    write_csv(project / "results" / "scratch" / "results.csv", rows)  # as if all lenses had spoken
    assert answer(NAMED["no-parallel"], Results(project)).found.at_size


def test_keep_leaves_places_out_and_says_the_step(kept):
    told = [json.loads(file.read_text()) for file in sorted((kept / "S3").glob("*.json"))]
    told += [json.loads(file.read_text()) for file in sorted((kept / "S5").glob("*.json"))]
    assert str(kept) not in json.dumps(told)
    for group in ("S3", "S5"):
        about = json.loads((kept / group / "probing.json").read_text())
        assert about["subject"] == {"step": STEPS}


def test_a_model_of_the_papers_size_goes_before_the_zoo(project, kept):
    for name in ("gpt2-associative", "gpt2-parity-associative"):
        shutil.copytree(kept / "S3", project / "results" / name)
    found = Results(project)
    assert first(found, A, found.folders)[0] == "gpt2-associative"
    assert steps_of(found, "gpt2-associative") == STEPS
    said = f"gpt2 from scratch, S3, after {STEPS} of 140,625 steps on length 100"
    said += ", looked at up to length 6"
    assert about(found, "gpt2-associative") == said
    rows = rows_of(found)
    for name in ("aa-patching", "paa-plateau", "bend-associative", "aa-deviation", "paa-window",
                 "paa-parity-probe", "aa-exponential", "table-1-paa-state", "parity-read",
                 "prism-angles", "aa-linear-variance", "table-2-s3-paa-1", "odd-only",
                 "same-parity-depth", "paa-cutoffs-one"):  # fmt: skip
        one = answer(NAMED[name], found)
        assert not one.small, name
        assert all("results/gpt2-" in source for source in one.found.sources), name
        if one.found.value is not None:
            # cutoffs are about all lengths, however short other lenses look
            about_it = said.partition(", looked")[0] if name == "paa-cutoffs-one" else said
            assert f"*The paper's size: {about_it}*" in rows[name], name
            assert "Small" not in rows[name], name
        assert not one.note or one.claim.general or one.note == one.claim.note_at_size, name
    for name in ("aa-reach", "paa-reach", "aa-drop", "paa-drop"):  # it is far from its end
        assert answer(NAMED[name], found).small
    assert answer(NAMED["leap-rotary"], found).small
    every = answer(NAMED["prism-all"], found)
    assert every.found.n == 4
    assert every.found.size.endswith("of the paper's size gpt2-parity-associative")
    title = charts(found)["patching"].title
    assert title.endswith(f"\nAA: gpt2, step {STEPS}; PAA: gpt2, step {STEPS}")
    missing = {"training", "text", *(name for name in PICTURES if "s5" in name)}
    assert {file.stem for file in draw_all(found)} == {*PICTURES} - missing


def test_a_log_is_drawn_and_goes_with_its_model(project, kept):
    folder = project / "results" / "gpt2-associative"
    shutil.copytree(kept / "S5", folder)
    assert "training" not in charts(Results(project))  # it never knew the state
    rows = [
        {"measure": "reached", "what": what, "length": length, "threshold": 0.98,
         "step": 100 * length + lag, "value": None}
        for what, lag in (("state", 50), ("parity", 0))
        for length in range(1, 5)
    ]  # fmt: skip
    write_csv(folder / "dynamics.csv", rows)
    found = Results(project)
    assert [panel.title for panel in charts(found)["training"].panels] == ["AA"]
    assert "training.png" in page(found)
    draw_all(found)
    assert (project / FOLDER / "training.png").is_file()
    shutil.rmtree(folder)
    draw_all(Results(project))
    assert not (project / FOLDER / "training.png").exists()


def test_lens_by_lens(project, kept):
    """Where one lens was not kept, the zoo still answers for it, and one mechanism does alone."""
    shutil.copytree(kept / "S3", project / "results" / "gpt2-parity-associative")
    (project / "results" / "gpt2-parity-associative" / "probing.csv").unlink()
    found = Results(project)
    assert answer(NAMED["paa-parity-probe"], found).small
    assert answer(NAMED["paa-splits"], found).found.at_size
    assert answer(NAMED["aa-splits"], found).small
    with pytest.raises(Missing, match=f"no model '{P}'"):
        first(found, P, lambda name: found.table(f"results/{name}/nothing.csv"))


def test_probes_beyond_what_was_looked_at_do_not_count(project, kept):
    """Of a model that knows short sequences, probes at its training length show nothing."""
    folder = project / "results" / "m"
    shutil.copytree(kept / "S3", folder)
    rows = Results(project).table("results/m/probing.csv")
    longer = [row | {"length": 100, "mean": 0.123} for row in rows if row["length"] == SHORTER]
    write_csv(folder / "probing.csv", rows + longer)
    values, _ = of_probing.curve(Results(project), "m", "state")
    assert 0.123 not in values
    write_csv(folder / "probing.csv", [row for row in longer if row["position"] == "any"])
    with pytest.raises(Missing):
        of_probing.late_gain("m")(Results(project))


def test_models_of_s5(project, kept):
    claims = [c.name for c in CLAIMS if "s5" in c.name and c.measure is not unmeasured]
    assert len(claims) == 15
    for name in claims:
        one = answer(NAMED[name], Results(project))
        assert (one.found.text(), one.judgement) == ("nothing measured", NOT_REACHED)
    shutil.copytree(kept / "S5", project / "results" / "s5-small-parity-associative")
    found = Results(project)
    assert answer(NAMED["s5-patching"], found).found.value is None  # it answers all pairs alike
    write_patching(project, "s5-small-parity-associative", [1, 2, 4, 8], opposite=[1, 8, 8, 8])
    found = Results(project)
    size = f"gpt2, 2 layers, width 16, S5, after {STEPS} steps on length 8"
    for name in claims:
        one = answer(NAMED[name], found)
        if name.startswith("table-2-s5-aa") or name == "s5-mirrored":  # for which all states count
            assert one.found.value is None
        elif name == "s5-clusters":  # told of, and not counted
            assert one.found.value is None
            assert one.found.words.startswith("not counted; ")
        else:
            assert one.found.size.startswith(size), name
            assert f"*Small: {size}" in rows_of(found)[name]
    for name in ("s5-patching", "s5-probing"):
        one = answer(NAMED[name], found)
        assert (one.found.n, one.judgement) == (1, NOT_REACHED)
        assert "no AA model" in one.found.words
    shutil.copytree(kept / "S5", project / "results" / "s5-associative")
    for fronts, judgement in (([1, 2, 4, 8], AGREES), ([1, 8, 8, 8], DIFFERS)):
        write_patching(project, "s5-associative", [1, 2, 4, 8], opposite=fronts)
        both = answer(NAMED["s5-patching"], Results(project))
        assert (both.found.n, both.judgement) == (2, judgement)


def test_models_of_sentences(project, kept):
    """All seeds in one row, which is small."""
    assert answer(NAMED["text-scratch"], Results(project)).found.text() == "nothing measured"
    for seed in range(2):
        shutil.copytree(kept / "S5", project / "results" / f"text-scratch-{seed}")
    one = answer(NAMED["text-scratch"], Results(project))
    assert (one.found.n, one.small, len(one.found.sources)) == (2, True, 2)
    assert one.found.size.startswith(f"gpt2, 2 layers, width 16, S5, after {STEPS} steps")


@pytest.mark.parametrize(
    ("verdicts", "judgement"),
    [([AA] * 4 + [PAA] * 4, AGREES), ([AA, PAA], NOT_REACHED), ([PAA] * 8, NOT_REACHED)],
)
def test_the_study_of_s5(project, verdicts, judgement):
    write_study(project, "small-s5", verdicts, group="S5")
    rows = Results(project).study("small-s5")
    for row in rows:
        ends = (5, 5 if row["verdict"] == AA else 9)
        row |= dict(zip(("cutoff", "parity_cutoff"), ends, strict=True))
        row |= dict(zip(("early_cutoff", "early_parity_cutoff"), ends, strict=True))
    write_csv(project / "results" / "small-s5" / "results.csv", rows)
    for name in ("s5-generalization", "s5-training"):
        assert answer(NAMED[name], Results(project)).judgement == judgement


def test_regimes_when_all_have_ended(project):
    rows = []
    for regime in ("topic-1", "topic-2", "parity", "control", "length", "auxiliary-parity",
                   "auxiliary-action"):  # fmt: skip
        verdict = AA if regime.startswith("topic") else PAA
        write_study(project, "part", [verdict] * 4, regime=regime, width=256)
        rows += Results(project).study("part")
        (project / "results" / "part" / "results.csv").unlink()
    (project / "results" / "small-regimes").unlink()
    write_csv(project / "results" / "small-regimes" / "results.csv", rows)
    found = Results(project)
    for name in ("topic-gpt2", "topic-2-gpt2", "topic-effect", "parity-gpt2",
                 "auxiliary-parity", "auxiliary-action"):  # fmt: skip
        one = answer(NAMED[name], found)
        assert one.judgement == AGREES, name
        assert "results/small-regimes/results.csv" in one.found.sources
    assert answer(NAMED["length-curriculum"], found).found.n == 4


def test_a_recurrent_model_gets_a_table(project):
    assert "a recurrent model" not in page(Results(project))
    write_study(project, "small-recurrent", ["sequential", PAA, None], model="mamba")
    text = page(Results(project))
    assert "| model | group | ended | parity-associative | sequential | states right |" in text
    assert "| mamba | S3 | 2 of 3 | **50%**" in text


def test_whatever_is_missing_is_not_measured(project):
    """Without any of the folders, and without all of them, there is a page and no error."""
    whole = len(re.findall("nothing measured", page(Results(project))))
    for folder in sorted((project / "results").glob("*")) + sorted(
        (project / "results" / "zoo").glob("*")
    ):
        if folder.name == "zoo":
            continue
        folder.rename(project / "aside")
        text = page(Results(project))  # which draws its charts
        assert text.count('| <a id="') == len(CLAIMS), folder
        (project / "aside").rename(folder)
    shutil.rmtree(project / "results")
    rows = rows_of(Results(project))
    assert len(rows) == len(CLAIMS)
    assert sum("nothing measured" in row for row in rows.values()) > whole
    known = {
        "examples",
        "tables",
        "generators",
        "algorithms-patching",
        "algorithms-probes",
        "topics",
    }
    assert charts(Results(project)).keys() == known  # what needs no results


def test_cells_that_fail_or_wait_do_no_harm(project):
    """A study of which nothing has been trained."""
    for name in ("small", "small-regimes", "small-groups"):
        (project / "results" / name).unlink()
        write_study(project, name, [None] * 3, early_step=None, cutoff=None, step=None)
    assert "none of 3 planned models has a verdict" in page(Results(project))
    write_json(project / "results" / "scratch" / "study.json", {})  # a folder without a table
    assert page(Results(project))
