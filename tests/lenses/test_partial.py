"""An interrupted lens continues with the parts that were finished."""

import dataclasses

import numpy as np
import pytest

import statetrace as st
from statetrace.lenses import partial
from statetrace.lenses.registry import LENSES

QUICK = {
    "patching": {"pairs": 10, "grids": "prefix-substitution-resid,window1-deletion-resid"},
    "probing": {"train": 200, "test": 50, "subsets": 2},
    "depth": {"pairs": 10},
    "attention": {"examples": 5, "ablation_examples": 10},
}


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("lens", QUICK)
def test_equal_to_one_that_was_not_interrupted(lens, in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr(partial, "WORTH", 0.0)
    model = st.compile("associative", "S3", 6, out=None if in_memory else tmp_path / "model")
    computed: list[str] = []
    plain = partial.part

    def counted(name, compute):
        def count():
            if len(computed) == 2:
                raise KeyboardInterrupt
            computed.append(name)
            return compute()

        return plain(name, count)

    for module in ("patching", "probing", "depth", "attention"):
        source = {"patching": "parts.patched_answers", "attention": "parts.attention_ablation"}
        monkeypatch.setattr(f"statetrace.lenses.{source.get(module, module)}.part", counted)
    for _ in range(20):
        try:
            result = model.analyze(lens, **{lens: QUICK[lens]})[lens]
            break
        except KeyboardInterrupt:
            assert len(computed) == 2
            computed.clear()
    else:
        raise AssertionError("no progress")
    assert not list(tmp_path.glob("**/unfinished"))
    monkeypatch.undo()
    spec = model.job(lens, QUICK[lens], False).spec
    whole = LENSES[lens].look(model.model, model.task, spec, lambda share: None)
    assert dict(result.columns) == dict(whole.columns)
    assert result.summary == whole.summary
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(result.arrays[name], array)
    assert dataclasses.asdict(result)["notes"] == whole.notes


def test_a_damaged_part_is_computed_again(tmp_path):
    parts = partial.Parts(tmp_path)
    parts.put("rows", [1.5, None])
    parts.put("arrays", {"values": np.arange(3.0)})
    assert parts.get("rows") == [1.5, None]
    assert parts.get("arrays")["values"].tolist() == [0, 1, 2]
    (tmp_path / "rows.json").write_text("[1.5,")
    (tmp_path / "arrays.safetensors").write_bytes(b"123")
    assert parts.get("rows") is None
    assert parts.get("arrays") is None
