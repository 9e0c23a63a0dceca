"""A package from outside the tree, installed into a folder and used from Python and from the
command line; beside it a broken one, whose problems are sentences that name it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny-plugins"
version = "1.0"
[tool.setuptools]
py-modules = ["tiny_plugins"]
[project.entry-points."statetrace.group"]
Q8 = "tiny_plugins:make_q8"
[project.entry-points."statetrace.lens"]
confidence = "tiny_plugins:lens"
[project.entry-points."statetrace.family"]
opt = "tiny_plugins:opt"
[project.entry-points."statetrace.algorithm"]
tripling = "tiny_plugins:Tripling"
[project.entry-points."statetrace.objective"]
smoothed = "tiny_plugins:smoothed"
"""

BROKEN = """
[statetrace.group]
S3 = broken_plugins:group
zeros = broken_plugins:zeros
twice = broken_plugins:group
[statetrace.lens]
missing = no_such_module:lens
confused = broken_plugins:group
[statetrace.algorithm]
half = broken_plugins:Half
"""

RECIPE = """
[task]
group = "Q8"
length = 4
sequences = 200
[model]
name = "opt"
layers = 1
width = 16
heads = 2
[evaluation]
evaluate_sequences = 20
[[stage]]
objective = "smoothed"
steps = 2
batch = 8
"""


def definitions():
    """The code of the how-tos up to where it registers something."""
    parts = [
        "from statetrace.groups import Group\n"
        "def make_q8():\n"
        "    return Group.from_matrices([[[0, 1], [2, 0]], [[1, 1], [1, 2]]], 3, 'Q8')\n"
    ]
    for kind in ("lens", "family", "algorithm", "objective"):
        page = (HOW_TO / f"own-{kind}.md").read_text()
        block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
        parts.append(block[: block.index("st.register(")])
    return "\n".join([*parts, "lens = Lens(ConfidenceSpec, confidence)\n"])


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder with both packages; tiny_plugins comes from pip, offline."""
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "site"))
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "tiny_plugins.py").write_text(definitions())
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    pip += ["--no-build-isolation", "--target", str(target), str(source)]
    subprocess.run(pip, check=True, capture_output=True)
    for number, name in enumerate(("broken-plugins", "other-plugins")):
        about = target / f"{name.replace('-', '_')}-0.1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
        points = BROKEN if number == 0 else "[statetrace.group]\ntwice = broken_plugins:group\n"
        (about / "entry_points.txt").write_text(points)
    (target / "broken_plugins.py").write_text(
        "from statetrace.groups import Group\n"
        "from statetrace.mechanisms.algorithms import Program\n"
        "group = Group.from_permutations(['213'], 'two')\n"
        "def zeros():\n    return Group.from_table([[0, 0], [0, 0]], 'zeros')\n"
        "class Half(Program):\n    name = 'half'\n"
    )
    return target


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def run(installed, work):
    (work / "recipe.toml").write_text(RECIPE)
    env = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}

    def python(*arguments, fails=False):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=work, env=env, capture_output=True, text=True
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done

    return python


def test_from_the_command_line(run, work):
    done = run("-m", "statetrace", "train", "recipe.toml", "--out", "RUN")
    assert "smoothed" in done.stderr
    several = """
import sys, warnings
from statetrace import cli
warnings.showwarning = cli._show_warning
for line in sys.argv[1:]:
    print("$", line)
    cli.app(line.split(), standalone_mode=False)
"""
    (work / "several.py").write_text(several)
    done = run(
        "several.py",
        "analyze RUN --only confidence",
        "report RUN --out report.html",
        "signatures --group Q8 --length 9 --out signatures.png",
        "compile --group S3 --length 4 --check 0 --out MADE",
        "verdict MADE --json",
    )
    assert re.search(r"confidence +at full length 0\.\d", done.stdout)
    page = (work / "report.html").read_text()
    assert 'id="confidence"' in page
    assert "at full length" in page
    assert "tripling: 2 layers" in done.stdout
    judged = json.loads(done.stdout.split("--json\n")[1])
    assert 0 < judged["probabilities"]["tripling"] < judged["probabilities"]["associative"]
    assert "tripling" in judged["evidence"]["depth"]["distances"]
    # the algorithm that cannot be used is named, once, and everything else went on
    assert done.stderr.count("the algorithm 'half' of the distribution 'broken-plugins'") == 1
    assert "does not implement reaches, reads, registers, step" in done.stderr


USE = """
import json, warnings
import statetrace as st
from statetrace.plugins import PluginWarning

said = {}
def refused(name, call):
    try:
        call()
    except st.StatetraceError as error:
        said[name] = str(error)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert st.group("Q8xZ2").order == 16
    assert st.group("S3").order == 6  # although a plug-in claims the name
    model = st.compile("associative", "S3", length=4)
    results = model.analyze(["confidence"], sequences=20)
    assert set(results) == {"confidence"}
    assert "tripling" in st.signatures("Q8", length=6)
    refused("unknown", lambda: st.group("Q9"))
    everything = [name for name in __import__("statetrace.lenses.registry").lenses.registry.LENSES]
    assert everything[-1] == "confidence" and len(everything) == 9
for name in ("zeros", "twice"):
    refused(name, lambda: st.group(name))
for name in ("missing", "confused"):
    refused(name, lambda: model.analyze([name]))
refused("taken", lambda: st.register("group", "Q8", st.group("S3")))
refused("wrong", lambda: st.register("family", "mine", 5))
refused("kind", lambda: st.register("groups", "mine", 5))
st.register("group", "mine", st.group("Q8"))
refused("again", lambda: st.register("group", "mine", st.group("Q8")))
st.register("group", "mine", st.group("S3"), replace=True)
notes = [str(w.message) for w in caught if issubclass(w.category, PluginWarning)]
print(json.dumps([said, notes]))
"""


def test_from_python(run, work):
    (work / "use.py").write_text(USE)
    said, notes = json.loads(run("use.py").stdout.splitlines()[-1])
    expected = {
        "unknown": ["Q8"],
        "zeros": ["'broken-plugins'", "zeros = broken_plugins:zeros", "0 then 1 is 0"],
        "twice": ["'broken-plugins'", "'other-plugins'", "clashes"],
        "missing": ["'broken-plugins'", "missing = no_such_module:lens", "No module named"],
        "confused": ["'broken-plugins'", "'Group', not a Lens"],
        "taken": ["register()", "'tiny-plugins'", "clashes"],
        "wrong": ["'int', not a Family"],
        "kind": ["'groups'", "group, lens, family, algorithm, objective"],
        "again": ["replace=True"],
    }
    for name, quoted in expected.items():
        assert all(part in said[name] for part in quoted), said[name]
        assert "\n" not in said[name]
    assert any("'S3' of the distribution 'broken-plugins'" in n and "itself" in n for n in notes)
    assert len(notes) == len(set(notes))
    assert all("broken-plugins" in note for note in notes)
