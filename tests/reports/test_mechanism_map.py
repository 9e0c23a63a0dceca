"""The map shows the growth that the verdict measured, and known algorithms where they lie."""

import pytest

from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import group
from statetrace.lenses.compiled import task_of
from statetrace.mechanisms.collect_evidence import collect_evidence
from statetrace.mechanisms.verdict import verdict
from statetrace.models.compiled import compile_model
from statetrace.reports.figures.chart import Dots
from statetrace.reports.figures.mechanism_map import OWN, TOGETHER, mechanism_map
from statetrace.reports.run_results import RunResults


@pytest.mark.parametrize(
    ("algorithm", "name", "near", "mark"),
    [
        ("parity-associative", "S3", (0, 1), OWN),
        ("associative", "S3", (1, 1), TOGETHER),
        ("parallel", "S3", (0, 0), OWN),
        ("sequential", "S3", (2.98, 2.98), TOGETHER),
        ("associative", "Z3", (1, 0), TOGETHER),
    ],
)
def test_a_compiled_model_is_at_its_landmark(algorithm, name, near, mark):
    spec = CompileSpec(name, algorithm, 8)
    results = collect_evidence(compile_model(spec), task_of(spec))
    plane, curves = mechanism_map(RunResults(results, group(name), 8)).panels
    dots = [part for part in plane.marks if isinstance(part, Dots)]
    landmarks = {dot.texts[0]: (dot.x[0], dot.y[0]) for dot in dots if dot.labelled}
    model = next(dot for dot in dots if not dot.labelled)
    links = verdict(results, group(name)).links
    place = model.x[0], model.y[0]
    assert place == pytest.approx(near, abs=0.2)
    assert place == pytest.approx(landmarks[algorithm], abs=0.2)
    assert place[0] == pytest.approx(links[0]["growth"], abs=1e-3)
    assert model.mark == mark
    drawn = {line.name: list(line.y) for line in curves.marks}
    assert drawn == {link["link"]: pytest.approx(link["layers_needed"], abs=1e-3) for link in links}
