"""torch.distributed's backend hvdopt: programs of tests/jobs/workers/c10d, in one job for each
number of ranks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from functools import cache

import pytest
from jobs import HANG_SECONDS, MARKER, WORKERS, inherited, processes

pytest.importorskip("torch")
from backend_worker import PROGRAMS

PROGRAM = WORKERS / "c10d" / "backend_worker.py"


@pytest.fixture(scope="session")
def run_ranks(tmp_path_factory, need):
    need("torch")

    @cache
    def run(ranks: int, hosts: int, kind: str, **settings: str) -> list[dict | None]:
        """What each rank printed last; None: it was killed. Ranks of several hosts share no
        memory."""
        store = tmp_path_factory.mktemp("store") / "store"
        environ = {**inherited(), "HOROVOD_OPT_NODE_RANKS": str(ranks // hosts), **settings}
        processes = [subprocess.Popen([sys.executable, PROGRAM, store, str(rank), str(ranks), kind],
                                      env=environ, stdout=subprocess.PIPE, text=True)
                     for rank in range(ranks)]
        try:
            outputs = [process.communicate(timeout=HANG_SECONDS)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [json.loads(output.splitlines()[-1]) if output else None for output in outputs]

    return run


@pytest.mark.parametrize("ranks, hosts", [(2, 1), (3, 1), (3, 3), (4, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(run_ranks, name, ranks, hosts):
    for found in run_ranks(ranks, hosts, "programs"):
        assert name in found, [text for text in found.values() if text]
        assert found[name] == "", found[name]


@pytest.mark.parametrize("ranks, hosts", [(3, 1), (3, 3), (4, 2)])
def test_a_killed_rank_is_known_to_the_others(run_ranks, ranks, hosts):
    found = run_ranks(ranks, hosts, "dies")
    assert found[1] is None
    (text,) = {one["dies"] for one in found if one}
    assert re.fullmatch(r"allreduce 2 of group 0 \(sum\), float32 \[10\]: rank 1 "
                        r"(is gone|at .* has closed its connection); remedy: see its last lines",
                        text)


@pytest.mark.parametrize("ranks, hosts", [(2, 1), (2, 2)])
def test_programs_that_name_gloo(run_ranks, ranks, hosts):
    for found in run_ranks(ranks, hosts, "as_gloo", HOROVOD_OPT_AS_GLOO="1"):
        assert found == {"as_gloo": ""}


@pytest.mark.parametrize("on_a_host", [3, 1])
def test_torchrun_restarts_a_job_of_which_a_rank_was_killed(need, tmp_path, on_a_host):
    need("torch")
    marker = uuid.uuid4().hex
    environ = {**inherited(), "HOROVOD_OPT_NODE_RANKS": str(on_a_host), "OMP_NUM_THREADS": "1",
               MARKER: marker}
    job = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3",
         "--max-restarts=1", WORKERS / "c10d" / "restarted.py", tmp_path],
        env=environ, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert job.returncode == 0, job.stderr
    for rank in range(3):
        lines = (tmp_path / f"rank-{rank}").read_text().splitlines()
        *first, second = map(json.loads, lines)
        assert second == {"attempt": 1, "sum": 30}
        if rank == 1:
            assert not first
            continue
        (failed,) = first
        assert re.fullmatch(
            r"allreduce 3 of group \S+ \(sum\), float32 \[10\]: rank 1 "
            r"(is gone|at .* has closed its connection); remedy: see its last lines",
            failed["error"])
    assert not processes(marker)


@pytest.mark.parametrize("controller, backend", [("mpi", "gloo"), ("gloo", "hvdopt")])
def test_horovodrun_starts_a_program_of_torch_distributed(job, controller, backend):
    result = job("env_meeting", backend, controller=controller, started=True, ranks=3)
    reports = result.expect_success().of_ranks(3)
    for rank, report in enumerate(reports):
        assert report == {"rank": rank, "sum": [6, 6, 6], "address": "127.0.0.1",
                          "local": [str(rank), "3"]}
