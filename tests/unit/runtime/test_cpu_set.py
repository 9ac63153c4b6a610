"""Cores among CPUs, and lists of CPUs as Linux writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod_opt import cpu_set


def test_hyperthreads_are_one_core(tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert cpu_set.count_cores([0, 1, 2, 3], tmp_path) == 2
    assert cpu_set.count_cores([0, 2], tmp_path) == 1
    assert cpu_set.count_cores([7, 8], tmp_path) == 2  # a machine without that file


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
