"""Registered algorithms in the verdict, measured by their own signatures."""

from dataclasses import dataclass

import numpy as np
import pytest

from statetrace import plugins
from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.lenses.compiled import task_of
from statetrace.mechanisms import registered
from statetrace.mechanisms.algorithms import ALGORITHMS, Associative, algorithm
from statetrace.mechanisms.collect_evidence import collect_evidence
from statetrace.mechanisms.evidence import Evidence, first_quotient
from statetrace.mechanisms.layers_needed import layers_needed
from statetrace.mechanisms.mastery import COLLECTED
from statetrace.mechanisms.signatures import predict_all, signature
from statetrace.mechanisms.verdict import verdict
from statetrace.models.compiled import compile_model


@dataclass(frozen=True)
class Twin(Associative):
    name = "twin"


@dataclass(frozen=True)
class ForA5(Associative):
    name = "for-a5"

    @classmethod
    def of(cls, group):
        if group.name != "A5":
            raise StatetraceError("it exists for A5 only")
        return cls(group)


@dataclass(frozen=True)
class Faulty(Associative):
    name = "faulty"

    def step(self, layer, h):
        return h / 0 if layer > 1 else [].pop()


@pytest.fixture
def register():
    names = []

    def add(program):
        plugins.register("algorithm", program.name, program)
        names.append(program.name)

    yield add
    for name in names:
        plugins.unregister("algorithm", name)


def perfect(program, length):
    """What a model would show that runs the program exactly, a layer per row."""
    states = program.group
    quotient = first_quotient(states)
    own = signature(program, states, length, by=quotient)
    lengths, depths = np.arange(2, length + 1), (2, 3, 4, length)
    needed = layers_needed(program, depths, 100, quotient.map)
    splits = ("same", "opposite")
    settled = {}
    for split in splits:
        grid = np.ones((own.rows, len(depths)))
        for column, layers in enumerate(needed[split]):
            grid[: int(layers), column] = 0
        settled[split] = grid
    return Evidence(
        order=states.order,
        unknown=len(quotient.kernel),
        quotient=quotient.name,
        length=length,
        restored={split: own.restored[split] for split in splits},
        depths=np.array(depths, dtype=float),
        settled=settled,
        lengths=lengths.astype(float),
        state=own.state_probe[:, lengths - 1],
        parity=own.parity_probe["hidden"][:, lengths - 1],
        cutoffs="",
        accuracy={"state": np.ones(length), quotient.name: np.ones(length)},
        sequences=1000,
        trained=length,
        head=None,
        lead=None,
    )


@pytest.mark.parametrize(("name", "of"), [(n, "S3") for n in ALGORITHMS] + [("associative", "A4")])
@pytest.mark.parametrize("length", [8, 11])
def test_a_program_is_at_no_distance_from_what_it_shows(name, of, length):
    program = algorithm(name, group(of))
    found = registered._distances(program, perfect(program, length), group(of))
    assert set(found) == {"patching", "probing", "depth"}
    # a random pair may draw the same answer by chance
    assert found["patching"] < 0.02
    assert found["probing"] == pytest.approx(0, abs=1e-9)
    assert found["depth"] < 0.1


def test_a_registered_algorithm_is_a_candidate(register):
    spec = CompileSpec(algorithm="associative", length=8)
    task = task_of(spec)
    results, states = collect_evidence(compile_model(spec), task, lenses=COLLECTED), group("S3")
    before = verdict(results, states)
    register(Twin)
    register(ForA5)
    after = verdict(results, states)
    assert {*after.probabilities} == {*before.probabilities, "twin"}
    assert after.probabilities["twin"] > 0.1
    assert sum(after.probabilities.values()) == pytest.approx(1)
    for lens in ("patching", "depth", "probing"):  # the others are measured as before
        old, new = (each.evidence[lens]["distances"] for each in (before, after))
        assert {name: new[name] for name in old} == old


def test_an_algorithm_that_fails_is_left_out_and_named(register):
    spec = CompileSpec(algorithm="associative", length=6)
    results = collect_evidence(compile_model(spec), task_of(spec))
    register(Faulty)
    with pytest.warns(plugins.PluginWarning, match="'faulty' failed: IndexError"):
        judged = verdict(results, group("S3"))
    assert "faulty" not in judged.probabilities
    predicted = predict_all("S3", 6)
    assert "'faulty' failed" in predicted["faulty"]
    assert not isinstance(predicted["associative"], str)


def test_a_verdict_is_short_to_read():
    spec = CompileSpec(algorithm="associative", length=6)
    judged = verdict(collect_evidence(compile_model(spec), task_of(spec)), group("S3"))
    assert repr(judged).startswith("Verdict: associative, confidence")
    assert len(repr(judged).splitlines()) < 15
    for lens in judged.evidence:
        assert lens in repr(judged)
        assert lens in judged._repr_html_()
    assert set(judged.to_dict()) == {
        *("mechanism", "confidence", "probabilities", "links", "evidence", "says"),
    }
