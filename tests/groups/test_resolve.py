"""One resolver for names, files, modules, registered groups and Group objects."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.groups import Group, group, group_name, store_group, stored_group
from statetrace.tasks.sequences import Sequences, unique_sequences
from statetrace.tasks.word_problem import word_problem
from tests.groups.cases import quaternions


@pytest.fixture
def q8() -> Iterator[Group]:
    plugins.register("group", "Qx8", quaternions)
    yield quaternions()
    plugins.unregister("group", "Qx8")


def test_every_kind_of_spec(q8: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    q8.save(tmp_path / "q.json")
    assert group(q8) is q8
    assert group(str(tmp_path / "q.json")) == q8
    assert group("Qx8") == q8
    assert group("tests.groups.cases:quaternions") == q8
    (tmp_path / "nearby_group.py").write_text(
        "from statetrace.groups import Group\nmine = Group.from_permutations(['213'], 'mine')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert group("nearby_group:mine").order == 2


def test_products_of_registered_groups(q8: Group) -> None:
    product = group("Z3xQx8xS3")
    assert (product.order, product.name) == (144, "Z3xQ8xS3")
    assert product.labels[0] == "0:1:123"
    assert {"Q8", "order-8"} & {q.image.name for q in product.quotients()}
    with pytest.raises(StatetraceError, match="too large"):
        group("Qx8xS6")
    with pytest.raises(StatetraceError, match="Qx8, or several"):
        group("Qx9")


def test_word_problem_of_a_group_object(q8: Group) -> None:
    task = word_problem(q8, 5, actions="i,j")
    sequences = task.sample(20, seed=0)
    assert task.group is q8
    assert set(sequences.actions.ravel().tolist()) <= {q8.index("i"), q8.index("j")}


def test_stored_groups(q8: Group, tmp_path: Path) -> None:
    store_group(tmp_path, group("S3"))
    assert not list(tmp_path.iterdir())  # its name is enough
    store_group(tmp_path, q8)
    store_group(tmp_path, q8)
    assert stored_group(tmp_path, "gone.json") == q8
    assert stored_group(tmp_path, "S3") == group("S3")
    with pytest.raises(StatetraceError, match="a different group"):
        store_group(tmp_path, Group.from_permutations(["213"], "other"))
    assert group_name(q8) == "Q8"
    with pytest.raises(StatetraceError, match="another name"):
        group_name(Group.from_permutations(["213"], "S3"))


def test_data_of_another_group_of_the_same_name_are_refused(q8: Group, tmp_path: Path) -> None:
    unique_sequences(q8, 5, 3, 0).save(tmp_path, q8)
    assert len(Sequences.load(tmp_path, q8)) == 5
    with pytest.raises(StatetraceError, match="Q8"):
        Sequences.load(tmp_path, Group.from_table(group("Z8").table, "Q8"))


@pytest.mark.parametrize(
    ("spec", "quoted"),
    [
        ("no_module_here:x", "No module named"),
        ("tests.groups.cases:nothing", "nothing"),
        ("tests.groups.cases:CASES", "'list', not a Group"),
        ("nowhere.json", "nowhere.json"),
    ],
)
def test_bad_specs_are_refused(spec: str, quoted: str) -> None:
    with pytest.raises(StatetraceError) as raised:
        group(spec)
    assert quoted in str(raised.value)
    assert spec in str(raised.value)
