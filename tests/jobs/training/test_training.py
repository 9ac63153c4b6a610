"""Training ends with identical weights on every rank and in every mode."""

from __future__ import annotations

import re

import pytest
from selection import rest_by_hand

TORCH = rest_by_hand(
    [*(("torch", "mpi", mode) for mode in ("off", "gs", "nbcs", "gs+nbcs", "topo")),
     *(("torch", "gloo", mode) for mode in ("off", "gs", "nbcs", "topo"))],
    lambda _, controller, mode: (controller, mode) not in (("gloo", "gs"), ("mpi", "gs+nbcs")))
TENSORFLOW = [("tensorflow", "mpi", mode) for mode in ("off", "gs", "nbcs", "topo")]


@pytest.fixture
def training_job(shared_job):
    def training_job(framework: str, controller: str, mode: str):
        return shared_job(
            f"{framework}_training",
            framework=framework,
            controller=controller,
            HOROVOD_OPT_MODE=mode,
            HOROVOD_OPT_STATS="1",
        ).expect_success()

    return training_job


@pytest.fixture
def train(training_job):
    def train(framework: str, controller: str, mode: str) -> dict[int, dict]:
        return training_job(framework, controller, mode).reports()

    return train


@pytest.mark.parametrize("framework, controller, mode", [*TORCH, *TENSORFLOW])
def test_same_weights_as_off(train, framework, controller, mode):
    reference = train(framework, "mpi", "off")
    assert reference[0]["initial"] != reference[0]["final"]
    reports = train(framework, controller, mode)
    assert list(reports) == [0, 1]
    for report in reports.values():
        assert report["initial"] == reference[0]["initial"]
        assert report["final"] == reference[0]["final"]


@pytest.mark.parametrize("framework, controller, mode", TENSORFLOW)
def test_join_after_uneven_steps(train, framework, controller, mode):
    """The rank with more steps is the last to join; meanwhile the other adds zeros."""
    joins = [report["joins"] for report in train(framework, controller, mode).values()]
    for longest, of_ranks in zip((1, 0), zip(*joins)):
        for rank, join in enumerate(of_ranks):
            assert join["last"] == longest
            assert join["sums"] == ([7.0, 7.0] if rank == longest else [])


# Of the same jobs: what they counted.

ANEW = {"steady_rounds"}  # counts from the last vote on


@pytest.mark.parametrize("framework, controller, mode", TORCH)
def test_counters(train, framework, controller, mode):
    for rank, report in train(framework, controller, mode).items():
        assert "needs hvd.init() first" in report["before"]
        snapshots = report["stats"]
        for stats in snapshots:
            assert stats["mode"] == mode
            assert stats["controller"] == controller
            assert (stats["rank"], stats["size"]) == (rank, 2)
        for earlier, later in zip(snapshots, snapshots[1:]):
            for name, value in earlier.items():
                if not isinstance(value, str) and name not in ANEW:
                    assert later[name] >= value, name

        end = snapshots[-1]
        assert end["cycles"] > 0
        # The gradients of every step, and some for what is broadcast first.
        gradients = 4 * (12 * 16 + 16 + 16 * 3 + 3)
        assert end["data_bytes"] > gradients * (len(snapshots) - 2)
        assert end["steps"] == len(snapshots) - 2
        assert end["data_seconds"] > 0
        assert end["cycles_slept"] <= end["cycles"]
        parts = ("sleep_seconds", "wait_seconds", "data_seconds")
        assert sum(end[part] for part in parts) <= end["elapsed_seconds"]
        # The kernel guesses what of it is the user's, of the thread and of the process apart.
        for kinds in (("user_seconds", "system_seconds"), ("voluntary_switches",)):
            thread, process = (sum(end[f"{whose}_{kind}"] for kind in kinds)
                               for whose in ("background", "process"))
            assert thread <= process
        polled = controller == "mpi" and ("nbcs" in mode or mode == "topo")
        assert (end["polls"] > 0) == polled
        assert (end["poll_sleep_seconds"] > 0) == polled
        assert end["poll_sleep_seconds"] <= end["wait_seconds"]


@pytest.mark.parametrize("framework, controller, mode", [*TORCH, *TENSORFLOW])
def test_table_at_shutdown(training_job, framework, controller, mode):
    job = training_job(framework, controller, mode)
    lines = job.output.splitlines()
    (title,) = (line for line in lines if "What the background thread cost" in line)
    (caption,) = (line for line in lines if f"mode {mode}, 2 ranks, {controller} con" in line)
    (header,) = (line for line in lines if "rank 0" in line and "rank 1" in line)
    notices = [line for line in lines if "mode nbcs changes nothing" in line]
    assert len(notices) == (controller == "gloo" and mode == "nbcs")
    # Open MPI's launcher writes [1,0]<stderr>: before a line of rank 0, the others [0].
    for line in (title, header, caption, *notices):
        assert re.match(r"\[(1,)?0\]", line), line
