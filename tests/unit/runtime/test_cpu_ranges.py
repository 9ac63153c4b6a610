"""Lists of CPUs as Linux writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod_opt import cpu_set


@pytest.mark.parametrize("cpus, text", [
    ([0], "0"), ([0, 1, 2, 3, 5], "0-3,5"), ([1, 3, 5], "1,3,5"), ([62, 63], "62-63")])
def test_runs_are_written_as_ranges(cpus, text):
    assert cpu_set.format_list(cpus) == text
    assert cpu_set.parse_list(text) == cpus


@given(st.sets(st.integers(0, 200), min_size=1))
def test_what_is_written_is_read_back(cpus):
    assert cpu_set.parse_list(cpu_set.format_list(sorted(cpus))) == sorted(cpus)


@pytest.mark.parametrize("text", ["", "a", "-3", "0,,1", "0x1"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        cpu_set.parse_list(text)
