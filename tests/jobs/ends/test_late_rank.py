"""A rank that is 300 ms late in every step: right results, and the others wait as their mode says.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import pytest
from selection import by_hand

JOBS = {"mpi": ("off", "gs", "nbcs", "gs+nbcs", "topo"), "gloo": ("off", "gs", "nbcs", "topo")}
EACH = [(controller, mode) for controller, modes in JOBS.items() for mode in modes]
STEPS, LATE_SECONDS = 4, 0.3  # as in workers/ends/late_rank.py
GLOO_SECONDS = 10  # so many that a busy machine is not taken for a lost rank
CYCLE_MS = "10"  # on a machine with other things to do, no cycle is over within the usual 1 ms


@pytest.fixture
def late(shared_job):
    def late(controller: str, mode: str, how: str) -> list[dict]:
        job = shared_job("late_rank", "modes", *JOBS[controller], controller=controller,
                         HOROVOD_CYCLE_TIME=CYCLE_MS)
        return [report[f"{mode} {how}"] for report in job.expect_success().reports().values()]

    return late


@pytest.mark.parametrize("how", ["busy", "stopped"])
@pytest.mark.parametrize("controller, mode", EACH)
def test_result(late, controller, mode, how):
    first, second = (rank["sums"] for rank in late(controller, mode, how))
    assert first == second == [[2.0 * step + 1] * 3 for step in range(len(first))]
    assert len(first) >= STEPS


@pytest.mark.parametrize("controller, mode", EACH)
def test_waits_for_a_stopped_rank(late, controller, mode):
    """Rank 0 cannot go on without it; in nbcs and topo it sleeps meanwhile."""
    waiting = late(controller, mode, "stopped")[0]

    def spent(counter: str) -> float:
        return waiting["after"][counter] - waiting["before"][counter]

    assert spent("wait_seconds") > 0.8 * STEPS * LATE_SECONDS
    if controller == "mpi" and ("nbcs" in mode or mode == "topo"):
        assert spent("polls") > 0
        # Most of it, but a thread that has slept waits for a core on a busy machine.
        assert spent("poll_sleep_seconds") > 0.4 * spent("wait_seconds")
    else:
        assert spent("polls") == 0
        assert spent("poll_sleep_seconds") == 0


@pytest.mark.parametrize("controller, messages", [
    ("gloo", "tcp"), ("mpi", "mpi"), by_hand("mpi", "tcp")])
def test_a_pause_longer_than_gloos_timeout_ends_nothing(job, need, controller, messages):
    """Rank 1 waits for a rank of another node that does something else for a while."""
    need("torch")
    reports = job("late_rank", "pause", 1.5 * GLOO_SECONDS, controller=controller,
                  HOROVOD_OPT_MODE="topo", HOROVOD_OPT_NODE_RANKS="1",
                  HOROVOD_GLOO_TIMEOUT_SECONDS=str(GLOO_SECONDS),
                  HOROVOD_OPT_TCP_MESSAGES=str(int(messages == "tcp"))).expect_success().of_ranks(2)
    for rank in reports:
        assert rank["sums"] == [[2.0 * step + 1] * 3 for step in range(60)]
        before, after = rank["planned"]
        assert 0 < before == after - 10
        assert rank["agreements"] == 0
    ways = {rank["messages"] for rank in reports}
    # Under MPI the trial decides.
    assert ways == {messages} if (controller, messages) != ("mpi", "tcp") else len(ways) == 1


@pytest.mark.parametrize("controller, mode", [
    (controller, mode) for controller, mode in EACH if "gs" in mode
])
def test_all_ranks_sleep_alike_in_gs(late, controller, mode):
    """In the same cycles, which end together."""
    ends = [rank["end"] for rank in late(controller, mode, "busy")]
    slept = [end["cycles_slept"] / end["cycles"] for end in ends]
    assert min(slept) > 0
    assert slept[0] == pytest.approx(slept[1], abs=0.05)
