"""Signatures for people who have no run yet."""

import numpy as np
import pytest

import statetrace as st
from statetrace.errors import StatetraceError
from statetrace.mechanisms.signatures import signature


@pytest.mark.parametrize(
    ("pairs", "split"), [("all", "all"), ("same parity", "same"), ("opposite parity", "opposite")]
)
def test_a_panel_for_each_algorithm_with_its_numbers(pairs, split):
    chart = st.signatures("S3", 8, pairs=100).plot(pairs)
    titles = [panel.title for panel in chart.panels]
    assert titles == ["sequential", "parallel", "associative", "parity-associative"]
    for panel in chart.panels:
        want = signature(panel.title, "S3", 8, pairs=100).patching["prefix", split]
        np.testing.assert_allclose(np.array(panel.heat.z, dtype=float), want, rtol=1e-3)


def test_algorithms_that_a_group_does_not_have_are_left_out():
    assert "parallel" not in [panel.title for panel in st.signatures("A5", 4).plot("all").panels]


def test_bad_requests_are_quoted():
    with pytest.raises(StatetraceError, match="'odd ones'"):
        st.signatures("S3", 8).plot("odd ones")
    with pytest.raises(StatetraceError, match="Z3 has no pairs of 'same parity'"):
        st.signatures("Z3", 8).plot("same parity")
    with pytest.raises(StatetraceError, match="Q"):
        st.signatures("Q", 8)
