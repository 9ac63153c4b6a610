"""Two hosts with a network of their own between them: training, and what happens if it drops."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from assertions import assert_apart, assert_intact
from jobs import WORKERS, run_job
from selection import by_hand, hosts_or_skip

CONTROLLERS = ("mpi", "gloo")
# Without what hides scikit-learn from other workers: the example needs it.
DEMO_PATH = os.pathsep.join(map(str, [WORKERS / "shared", Path(__file__).parents[3] / "examples"]))
# Both wait for minutes otherwise.
SHORT = {
    "PRTE_MCA_oob_tcp_keepalive_time": "2",
    "PRTE_MCA_oob_tcp_keepalive_intvl": "1",
    "PRTE_MCA_oob_tcp_keepalive_probes": "3",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "10",  # a rank that is only slow is not lost
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with hosts_or_skip(tmp_path_factory.mktemp("hosts"), 2) as hosts:
        yield hosts


@pytest.fixture
def job(hosts, need, tmp_path):
    def job(worker: str, *arguments: object, controller: str, **environment: str):
        need("torch", controller)
        hosts.mend()
        options = (f"--{controller}", "-np", 2, "-H", "h1:1,h2:1", "--disable-cache")
        return hosts.on_first(
            run_job, tmp_path, worker, *arguments, options=options, PATH=hosts.path,
            HOROVOD_START_TIMEOUT="120", **environment
        )

    return job


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_demo(hosts, job, controller):
    """It fails unless all ranks have the same weights."""
    before = hosts.received()
    result = job("fault_demo", "--epochs", 14, controller=controller, HOROVOD_OPT_MODE="topo",
                 HOROVOD_OPT_STATS="1", PYTHONPATH=DEMO_PATH).expect_success()
    assert "identical weights: yes" in result.output
    assert "planned iterations" in result.output
    first, second = result.reports().values()
    assert (first["host"], second["host"]) == ("h1", "h2")
    assert first["nodes"] == second["nodes"] == 2
    assert first["planned_iterations"] == second["planned_iterations"] > 500
    for host, bytes_received in hosts.received().items():
        assert bytes_received - before[host] > first["bytes"], "not through shared memory"


@pytest.mark.parametrize("controller, backend", [("mpi", "hvdopt"), ("gloo", "gloo")])
def test_a_program_of_torch_distributed(job, controller, backend):
    reports = job("env_meeting", backend, controller=controller).expect_success().of_ranks(2)
    for rank, report in enumerate(reports):
        assert (report["rank"], report["sum"]) == (rank, [3, 3, 3])
        assert report["local"] == ["0", "1"]
        assert not report["address"].startswith("127.")


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="mode scp needs two cores for one rank"
)
def test_cores_are_apart_on_both_hosts(job):
    modes = ("scp", "topo+scp")
    for report in job("cores", *modes, "auto", controller="mpi").expect_success().of_ranks(2):
        for mode in modes:
            run = report[mode]
            assert_apart(run)
            everything = run["before"]["rest"][0]
            assert all(cpus == everything for cpus in run["after"]["rest"])
            assert run["losses"] == pytest.approx([64 * 0.8 ** (2 * step) for step in range(5)])
        assert report["topo+scp"]["states"] == report["auto"]["states"] == ["active"]


@pytest.mark.slow
def test_benchmark(hosts, need, tmp_path):
    """Ranks of each host take part, and without communication those of this one stand for all."""
    need("torch", "mpi")
    hosts.mend()
    before = hosts.received()
    result = hosts.on_first(
        subprocess.run,
        [sys.executable, "-m", "horovod_opt.cli", "bench", "--hosts", "h1:1,h2:1", "--ranks", "2",
         "--framework", "torch", "--models", "ResNet18", "--pixels", "32", "--batch", "2",
         "--modes", "off", "--rounds", "1", "--seconds", "0.5", "--output", tmp_path],
        env={**os.environ, "PATH": hosts.path}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    document = json.loads((tmp_path / "bench.json").read_text())
    assert document["settings"]["hosts"] == [["h1", 1], ["h2", 1]]
    series = {measurement["series"]: measurement for measurement in document["measurements"]}
    assert sorted(series) == ["no communication", "off"]
    assert all(measurement["images_per_second"] > 0 for measurement in series.values())
    least, second = (stats["data_bytes"] for stats in series["off"]["stats"])
    assert least == second > 0
    for host, bytes_received in hosts.received().items():
        assert bytes_received - before[host] > least, "not through shared memory"


@pytest.mark.parametrize("mode", [by_hand("off"), "topo"])
def test_network_drops_under_gloo(hosts, job, mode):
    result = job("fault_ends", "network", controller="gloo", HOROVOD_OPT_MODE=mode, **SHORT)
    assert not result.hung, result.output
    assert result.code != 0
    assert not result.survivors
    assert not hosts.processes()
    for report in result.of_ranks(2):
        # Which of the two depends on whether tensors were on their way.
        assert re.match(r"HorovodInternalError: (Horovod has been shut down|.*Timed out waiting)",
                        report["error"])
        assert ("active" in report["states"]) == (mode == "topo")
    assert_intact(result, "network")


@pytest.mark.parametrize("mode", [by_hand("off"), "topo"])
def test_network_drops_under_mpi(hosts, job, mode):
    """Open MPI's daemons notice, and end the ranks; mpirun's own status would be 0."""
    result = job("fault_ends", "network", controller="mpi", HOROVOD_OPT_MODE=mode, **SHORT)
    assert not result.hung, result.output
    assert result.code == 1
    assert "rank 1 on h2 was killed, or its host was lost" in result.output
    assert re.search("mpirun has ended with status 0, but rank 0 on h1 (was killed|ended)",
                     result.output)
    assert not result.survivors
    assert not hosts.processes()
    assert result.reports() == {}
    assert "lost communication with a remote daemon" in " ".join(result.output.split())
    assert_intact(result, "network")
