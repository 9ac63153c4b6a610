"""Settings that cannot be used: every rank fails in hvd.init(), with the same helpful text."""

from __future__ import annotations

import json
import os

import pytest

MODE, LOW, HIGH = (
    f"HOROVOD_OPT_{name}" for name in ("MODE", "NBCS_SLEEP_MIN_US", "NBCS_SLEEP_MAX_US")
)
INTERVAL = "HOROVOD_OPT_GS_INTERVAL"
FOLDER = "HOROVOD_OPT_STATS_FOLDER"

# name -> (environment by rank, what the text must contain)
ATTEMPTS = {
    "unknown mode": (
        [{MODE: "nbsc"}] * 2,
        ["HOROVOD_OPT_MODE='nbsc'", "'nbsc' is not a mode", "Did you mean nbcs?", "off", "scp"],
    ),
    "contradictory mode": (
        [{MODE: "off+gs"}] * 2,
        ["HOROVOD_OPT_MODE='off+gs'", "'off' combines with no other mode", "Valid:"],
    ),
    "topo on one rank": (
        [{MODE: "topo"}, {MODE: "gs"}],
        ["The ranks disagree: HOROVOD_OPT_MODE=topo on rank 0; HOROVOD_OPT_MODE=gs on rank 1."],
    ),
    "not a number": (
        [{INTERVAL: "often"}] * 2,
        ["HOROVOD_OPT_GS_INTERVAL='often'", "not a whole number", "1 to", "default"],
    ),
    "negative": (
        [{LOW: "-5"}] * 2,
        ["HOROVOD_OPT_NBCS_SLEEP_MIN_US='-5'", "out of bounds", "1 to"],
    ),
    "minimum above maximum": (
        [{MODE: "nbcs", LOW: "300", HIGH: "200"}] * 2,
        [f"{LOW}=300", f"{HIGH}=200", "Lower the first or raise the second"],
    ),
    "misspelt setting": (
        [{"HOROVOD_OPT_MODES": "nbcs"}] * 2,
        ["HOROVOD_OPT_MODES='nbcs'", "no such setting", "Did you mean HOROVOD_OPT_MODE?"],
    ),
    "different modes": (
        [{MODE: "nbcs"}, {MODE: "gs"}],
        ["HOROVOD_OPT_MODE=nbcs on rank 0", "HOROVOD_OPT_MODE=gs on rank 1", "same value"],
    ),
    "different numbers": (
        [{MODE: "gs", INTERVAL: "2"}, {MODE: "gs"}],
        [f"{INTERVAL}=2 on rank 0", f"{INTERVAL}=1 on rank 1", "same value"],
    ),
    "one invalid rank": (
        [{MODE: "gs"}, {MODE: "fast"}],
        ["On rank 1:", "HOROVOD_OPT_MODE='fast'", "Valid:"],
    ),
    "invalid in two ways": (
        [{MODE: "fast"}, {INTERVAL: "0"}],
        ["On rank 0:", "HOROVOD_OPT_MODE='fast'", "On rank 1:", f"{INTERVAL}='0'"],
    ),
    "fusion threshold with a unit on one rank": (
        [{MODE: "topo"}, {MODE: "topo", "HOROVOD_FUSION_THRESHOLD": "64MB"}],
        ["On rank 1:", "HOROVOD_FUSION_THRESHOLD='64MB'", "67108864 for 64MB"],
    ),
    "different builds": (
        [{MODE: "topo"}, {MODE: "topo", "BUILT_OF": "0123456789abcdef"}],
        ["horovod-opt=0123456789abcdef on rank 1", "Install the same build of horovod-opt"],
    ),
    "folder in which no file can be made": (
        [{FOLDER: "/proc/none"}, {}],
        ["On rank 0:", f"{FOLDER}='/proc/none'", "No such file", "unset it for no lines"],
    ),
    "different folders": (
        [{FOLDER: "/tmp"}, {}],
        [f"{FOLDER}=/tmp on rank 0", "same value"],
    ),
    "interval": (
        [{FOLDER: "/tmp", "HOROVOD_OPT_STATS_INTERVAL_MS": "0.5"}] * 2,
        ["HOROVOD_OPT_STATS_INTERVAL_MS='0.5'", "not a whole number", "10 to 3600000 ms"],
    ),
    "too few cores": (
        [{MODE: "scp"}] * 2,
        ["Mode scp needs 2 cores per rank", "local ranks 0-1 share CPUs", "HOROVOD_OPT_MODE"],
    ),
}


@pytest.fixture(scope="module")
def two_cores():
    """Lets this thread, and with it the jobs it starts, have at most two cores."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cpus)[:2])
    yield
    os.sched_setaffinity(0, cpus)


@pytest.fixture(params=["mpi", "gloo"])
def reports(request, shared_job, two_cores) -> list[dict]:
    attempts = json.dumps([environments for environments, _ in ATTEMPTS.values()])
    job = shared_job("bad_settings", attempts, controller=request.param).expect_success()
    return list(job.reports().values())


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_each_rank_says_what_is_wrong(reports, attempt):
    number = list(ATTEMPTS).index(attempt)
    outcomes = [report["outcomes"][number] for report in reports]
    texts = ATTEMPTS[attempt][1]
    if len(os.sched_getaffinity(0)) < 2:
        texts = [text.replace("CPUs", "CPU") for text in texts]
    assert outcomes[0].startswith("SettingsError: ")
    assert outcomes == outcomes[:1] * 2
    for text in texts:
        assert text in outcomes[0]


def test_starts_after_a_failure(reports):
    assert [report["at_last"] for report in reports] == ["summed 3, trained to -3"] * 2


def test_job_fails_if_the_script_does_not_catch_it(job):
    """As most scripts do; the launcher says why, once a rank."""
    result = job("torch_training", started=True, HOROVOD_OPT_MODE="nbsc")
    assert not result.hung
    assert result.code != 0
    assert not result.survivors
    assert "SettingsError: HOROVOD_OPT_MODE='nbsc'" in result.output
