"""Mode scp: the background thread has a core of its own, and gives it back."""

from __future__ import annotations

import os

import pytest
from masks import assert_apart

from horovod_opt import cpu_set

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="mode scp needs two cores for one rank"
)

# The number behind a mode is HOROVOD_OPT_SCP_CORE.
MODES = ("scp", "scp,0", "nbcs+scp", "gs+scp", "off", "auto")
# To Gloo two names are two hosts: so each of two ranks has all cores of this one. Under MPI that
# takes hosts of their own, see test_hosts.py.
HOW = {
    "mpi": {"ranks": 1},
    "gloo": {"ranks": 2, "options": (
        *("--gloo", "-np", 2, "-H", "localhost:1,127.0.0.1:1", "--network-interfaces", "lo"),
    )},
}


@pytest.fixture
def seen(shared_job):
    """By rank; all of them are there."""

    def seen(controller: str, mode: str) -> list[dict]:
        how = HOW[controller]
        job = shared_job("cores", *MODES, controller=controller, **how)
        return [report[mode] for report in job.succeeded().of_each(how["ranks"])]

    return seen


EACH = [(controller, mode) for controller in ("mpi", "gloo") for mode in MODES]
APART = [(controller, mode) for controller, mode in EACH if "scp" in mode]


def assert_together(run: dict) -> None:
    assert run["during"]["background"]
    threads = run["during"]["background"] + run["during"]["rest"]
    assert all(cpus == run["before"]["rest"][0] for cpus in threads)


@pytest.mark.parametrize("controller, mode", APART)
def test_cores_are_apart(seen, controller, mode):
    for run in seen(controller, mode):
        assert_apart(run)


@pytest.mark.parametrize("controller, mode", APART)
def test_a_new_thread_stays_off_the_background_core(seen, controller, mode):
    for run in seen(controller, mode):
        assert run["new"] == run["during"]["rest"][0]


@pytest.mark.parametrize("controller, mode", APART)
def test_shutdown_restores_all_threads(seen, controller, mode):
    for run in seen(controller, mode):
        everything = run["before"]["rest"][0]
        assert run["after"]["background"] == []
        assert all(cpus == everything for cpus in run["after"]["rest"])
        assert run["new_after"] == everything


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_which_core(seen, controller):
    for of_last, of_first in zip(seen(controller, "scp"), seen(controller, "scp,0")):
        (last,) = of_last["during"]["background"]
        (first,) = of_first["during"]["background"]
        assert max(first) < min(last)


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_off_pins_nothing(seen, controller):
    for run in seen(controller, "off"):
        assert_together(run)


def test_auto_is_topo_and_scp_where_there_are_cores(seen):
    for run in seen("gloo", "auto"):  # a rank alone plans nothing
        assert run["states"] == ["active"]
        if cpu_set.count_cores(run["before"]["rest"][0]) >= 4:
            assert_apart(run)
        else:
            assert_together(run)


@pytest.mark.parametrize("controller, mode", EACH)
def test_training_works(seen, controller, mode):
    for run in seen(controller, mode):
        assert run["losses"] == pytest.approx([64 * 0.8 ** (2 * step) for step in range(5)])
