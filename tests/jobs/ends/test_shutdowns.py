"""What is left of a shutdown: the promised error for every call, nothing for the next hvd.init().

By mode, controller and framework. Upstream's response cache does not know enough of joins.
"""

from __future__ import annotations

import pytest

MODES = ("off", "topo")
RESTARTED = ("off", "gs", "nbcs", "topo")
SHUT_DOWN = "Horovod has been shut down"
ERROR = f"HorovodInternalError: {SHUT_DOWN}"
# On the rank that has shut down itself, of calls after that.
ENDED = "HorovodInternalError: Horovod has not been initialized; use hvd"
SUM = 6.0  # of ranks 0 to 2, counted from 1

both = pytest.mark.parametrize("mode, controller", [
    (mode, controller) for controller in ("mpi", "gloo") for mode in MODES])


@pytest.fixture
def outcomes(shared_job):
    def outcomes(worker: str, framework: str, controller: str, case: str) -> list[dict]:
        job = shared_job(worker, " ".join(MODES), framework=framework, controller=controller,
                         ranks=3, HOROVOD_CACHE_CAPACITY="0").expect_success()
        return [report[case] for report in job.of_ranks(3)]

    return outcomes


@pytest.fixture
def torch(outcomes):
    return lambda controller, case: outcomes("shutdowns", "torch", controller, case)


@pytest.fixture
def tensorflow(outcomes):
    return lambda controller, case: outcomes(
        "shutdowns_tensorflow", "tensorflow", controller, case)


@both
def test_ranks_that_had_joined_begin_anew(torch, mode, controller):
    first, *others = torch(controller, f"{mode} joined")
    assert first == {"error": "", "sum": SUM}
    assert others == [{"error": ERROR, "sum": SUM}] * 2


@both
def test_a_thread_waits_while_another_shuts_down(torch, mode, controller):
    assert torch(controller, f"{mode} waiting") == [{"error": ERROR, "sum": SUM}] * 3


@both
def test_a_handle_is_given_out_once(torch, mode, controller):
    for rank, outcome in enumerate(torch(controller, f"{mode} handles")):
        assert outcome == {"errors": [ERROR] * (rank + 1), "sum": SUM}


@both
def test_a_process_set_that_a_shutdown_ended(torch, mode, controller):
    first, *others = torch(controller, f"{mode} process_set")
    assert first == {"seen": {}, "sum": SUM}
    for rank, outcome in enumerate(others):
        assert outcome["sum"] == SUM
        assert outcome["seen"].pop("set") == [2, rank, True]
        assert outcome["seen"] == dict.fromkeys((
            "allreduce", "grouped", "allgather", "broadcast", "alltoall", "reducescatter",
            "barrier", "join"), ERROR)


@both
def test_a_stall_in_a_process_set_ends_all_ranks(torch, mode, controller):
    assert torch(controller, f"{mode} stalled_set") == [{"error": ERROR, "sum": SUM}] * 3


@both
def test_threads_call_while_others_shut_down(torch, mode, controller):
    for outcome in torch(controller, f"{mode} several_threads"):
        assert outcome["sum"] == SUM
        assert ERROR in outcome["errors"]
        assert set(outcome["errors"]) <= {ERROR, ENDED}


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_settings_are_those_of_now(torch, controller):
    first, *_ = torch(controller, f"{MODES[0]} settings")
    assert first["fuses"]


@both
def test_tensorflow_joined(tensorflow, mode, controller):
    first, *others = tensorflow(controller, f"{mode} joined")
    assert first == {"error": "", "sum": SUM}
    assert others == [{"error": SHUT_DOWN, "sum": SUM}] * 2


@both
def test_tensorflow_waits(tensorflow, mode, controller):
    assert tensorflow(controller, f"{mode} waiting") == [{"error": SHUT_DOWN, "sum": SUM}] * 3


@both
def test_tensorflow_process_set(tensorflow, mode, controller):
    first, *others = tensorflow(controller, f"{mode} process_set")
    assert first == {"seen": {}, "sum": SUM}
    for rank, outcome in enumerate(others):
        assert outcome["sum"] == SUM
        assert outcome["seen"].pop("set") == [2, rank, True]
        assert outcome["seen"] == dict.fromkeys((
            "graph", "allreduce", "grouped", "allgather", "broadcast", "alltoall",
            "reducescatter", "join"), SHUT_DOWN)


def test_a_peer_of_a_process_set_is_killed(need, job):
    """The others survive it: their shutdown waits for nobody."""
    need("torch", "gloo")
    result = job("killed_peer", ranks=3, controller="gloo", started=True)
    assert not result.hung, result.output
    assert not result.survivors
    reports = result.reports()
    assert list(reports) == [0, 1]
    for report in reports.values():
        assert report["error"].startswith("HorovodInternalError")
        assert report["set"] == ERROR


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_fifty_starts(job, controller):
    result = job("shutdowns", " ".join(RESTARTED), "restarts", controller=controller)
    for report in result.expect_success().of_ranks(2):
        for mode in RESTARTED:
            lives = report[f"{mode} restarts"]
            assert lives["sums"] == [2 * start for start in range(50)]
            # MPI or Gloo may keep threads of its own, but no more with every start.
            assert lives["threads"][-1] <= lives["threads"][4]
