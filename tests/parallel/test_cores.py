"""Mode scp: the background thread has a core of its own, and gives it back."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="mode scp needs two cores for one rank"
)

# The number behind a mode is HOROVOD_OPT_SCP_CORE.
MODES = ("scp", "scp,0", "nbcs+scp", "gs+scp", "off")


@pytest.fixture
def seen(shared_job):
    def seen(controller: str, mode: str) -> dict:
        job = shared_job("cores", *MODES, ranks=1, controller=controller)
        return job.succeeded().reports()[0][mode]

    return seen


EACH = [(controller, mode) for controller in ("mpi", "gloo") for mode in MODES]
APART = [(controller, mode) for controller, mode in EACH if mode != "off"]


@pytest.mark.parametrize("controller, mode", APART)
def test_cores_are_apart(seen, controller, mode):
    run = seen(controller, mode)
    (background,) = run["during"]["background"]
    all_cpus = set(run["before"]["rest"][0])
    assert background
    assert set(background) < all_cpus
    for cpus in run["during"]["rest"]:
        assert set(cpus) == all_cpus - set(background)


@pytest.mark.parametrize("controller, mode", APART)
def test_a_new_thread_stays_off_the_background_core(seen, controller, mode):
    run = seen(controller, mode)
    assert run["new"] == run["during"]["rest"][0]


@pytest.mark.parametrize("controller, mode", APART)
def test_shutdown_restores_all_threads(seen, controller, mode):
    run = seen(controller, mode)
    everything = run["before"]["rest"][0]
    assert run["after"]["background"] == []
    assert all(cpus == everything for cpus in run["after"]["rest"])
    assert run["new_after"] == everything


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_which_core(seen, controller):
    (last,) = seen(controller, "scp")["during"]["background"]
    (first,) = seen(controller, "scp,0")["during"]["background"]
    assert max(first) < min(last)


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_off_pins_nothing(seen, controller):
    run = seen(controller, "off")
    assert len(run["during"]["background"]) == 1
    threads = run["during"]["background"] + run["during"]["rest"]
    assert all(cpus == run["before"]["rest"][0] for cpus in threads)


@pytest.mark.parametrize("controller, mode", EACH)
def test_training_works(seen, controller, mode):
    losses = seen(controller, mode)["losses"]
    assert losses == pytest.approx([64 * 0.8 ** (2 * step) for step in range(5)])
