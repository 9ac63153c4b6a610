"""`horovodrun` under the MPI of this environment, and under Gloo."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from jobs import BIN, HANG_SECONDS
from launched import RANK_VARIABLES, Job

VIRTUAL = sys.prefix != sys.base_prefix

VALUES = {
    "HOROVOD_OPT_MODE": "nbcs",
    "HOROVOD_FUSION_THRESHOLD": "1048576",
    "LAUNCHER_QUOTES": 'it\'s "$HOME" ; * \\ , =',
    "LAUNCHER_LINES": "one\ntwo",
    "LAUNCHER_EMPTY": "",
}


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(tmp_path)


def test_ranks_have_the_interpreter_of_the_command(job, controller):
    assert [report["prefix"] for report in job.report(controller, "-np", 2)] == [sys.prefix] * 2


def test_an_mpi_is_found_where_the_ranks_environment_has_no_path(need):
    """Spark gives the ranks such a one."""
    need("torch", "mpi")
    from horovod.runner import mpi_run

    assert mpi_run._get_mpi_implementation_flags(None, env={"A": "1"})[0]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_arguments_and_environment(job, controller, ranks):
    job.environment = VALUES
    arguments = ("-bind-to", "two words", "--lr=0.1")
    reports = job.report(controller, "-np", ranks, arguments=arguments)
    assert [report["rank"] for report in reports] == list(range(ranks))
    for report in reports:
        assert report["size"] == ranks
        assert report["prefix"] == sys.prefix
        assert report["uid"] == os.getuid()
        assert tuple(report["arguments"]) == arguments
        assert {name: report["environment"].get(name) for name in VALUES} == VALUES


@pytest.mark.skipif(not VIRTUAL, reason="only a virtual environment comes before all of PATH")
def test_other_environments_in_path_are_not_used(job, controller):
    impostors = job.folder / "impostors"
    impostors.mkdir()
    for name in ["python"] + ["mpirun"] * (BIN / "mpirun").exists():
        (impostors / name).write_text("#!/bin/sh\nexit 99\n")
        (impostors / name).chmod(0o755)
    job.environment = {"PATH": os.pathsep.join([str(impostors), os.environ["PATH"]])}
    assert [report["prefix"] for report in job.report(controller, "-np", 2)] == [sys.prefix] * 2


def test_launcher_needs_no_distutils():
    blocked = "import sys; sys.modules['distutils'] = None; import horovod.runner.launch"
    subprocess.run([sys.executable, "-c", blocked], check=True)


FAIL = f"""
import os, sys, time
rank = next(os.environ[name] for name in {RANK_VARIABLES} if name in os.environ)
sys.exit(7) if rank == "1" else time.sleep(float(sys.argv[1]))
"""


@pytest.mark.usefixtures("mpi")
def test_exit_code_of_a_failing_rank_under_mpi(job):
    # Hydra waits for the other ranks unless the failing one had called MPI_Init.
    job.run("--mpi", "-np", 2, "python", "-c", FAIL, 1)
    assert job.code == 7, job.output


def test_failing_rank_ends_the_job_under_gloo(job, need):
    need("gloo")
    job.run("--gloo", "-np", 2, "python", "-c", FAIL, 3 * HANG_SECONDS)
    assert job.code == 1
    assert "Exit code: 7" in job.output


def test_options_of_horovodrun_reach_mpirun(job, mpi):
    if "Open MPI" not in mpi and "OpenRTE" not in mpi:
        pytest.skip("spells its options differently")
    reports = job.report(
        "--mpi", "-np", 2, "--verbose", "--network-interfaces", "lo",
        "--binding-args=-bind-to none -map-by slot:OVERSUBSCRIBE",
        "--mpi-args=-mca btl_base_verbose 0 -x LAUNCHER_ADDED=yes",
        "--output-filename", job.folder / "printed",
    )  # fmt: skip
    for report in reports:
        assert report["environment"]["OMPI_MCA_btl_tcp_if_include"] == "lo"
        assert report["environment"]["OMPI_MCA_btl_base_verbose"] == "0"
        assert report["environment"]["OMPI_MCA_pml"] == "ob1"
        assert report["environment"]["LAUNCHER_ADDED"] == "yes"
        assert report["environment"]["NCCL_SOCKET_IFNAME"] == "lo"
    assert "slot:OVERSUBSCRIBE" in job.output
    assert_printed(job.folder)


def test_options_of_horovodrun_reach_hydra(job, mpi):
    if "HYDRA" not in mpi:
        pytest.skip("spells its options differently")
    reports = job.report(
        "--mpi", "-np", 2, "--verbose", "--network-interfaces", "lo",
        "--binding-args=-bind-to user:0",
        "--mpi-args=-genv LAUNCHER_ADDED yes",
        "--output-filename", job.folder / "printed.%r",
    )  # fmt: skip
    for report in reports:
        assert report["environment"]["LAUNCHER_ADDED"] == "yes"
        assert report["environment"]["NCCL_SOCKET_IFNAME"] == "lo"
    assert "-bind-to user:0" in job.output
    assert_printed(job.folder)


def assert_printed(folder: Path) -> None:
    """mpirun names the files; each rank's line must be in one of them."""
    files = [path for path in folder.rglob("*") if "printed" in str(path) and path.is_file()]
    text = "".join(path.read_text() for path in files)
    assert "out of rank 0" in text
    assert "out of rank 1" in text


@pytest.mark.usefixtures("mpi")
def test_mpirun_starts_though_the_ranks_are_given_little(monkeypatch):
    """As horovod.spark.run starts it: Open MPI 5 needs HOME."""
    from horovod.runner.common.util.settings import Settings
    from horovod.runner.mpi_run import mpi_run

    monkeypatch.setenv("PATH", os.defpath)  # without this environment's mpirun
    output = io.StringIO()
    settings = Settings(num_proc=2, hosts="localhost:2", run_func_mode=True)
    program = [sys.executable, "-c", "import os; print('given', os.environ['LAUNCHER_GIVEN'])"]
    mpi_run(settings, None, {"LAUNCHER_GIVEN": "this"}, program, stdout=output)
    assert output.getvalue().count("given this") == 2


def test_output_files_of_gloo(job, need):
    need("gloo")
    job.report("--gloo", "-np", 2, "--output-filename", job.folder / "printed")
    for rank in range(2):
        printed = job.folder / "printed" / f"rank.{rank}" / "stdout"
        assert f"out of rank {rank}" in printed.read_text()


def test_interface_chosen_by_the_user_under_open_mpi(job, mpi):
    if "HYDRA" in mpi:
        pytest.skip("upstream prefers the interface that horovodrun found")
    job.environment = {"NCCL_SOCKET_IFNAME": "ib0"}
    (report,) = job.report("--mpi", "-np", 1)
    assert report["environment"]["NCCL_SOCKET_IFNAME"] == "ib0"


def test_ordinary_user(controller):
    if os.getuid() != 0:
        pytest.skip("every test here already runs as an ordinary user")
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, nobody, nobody)
        job = Job(folder, user=nobody)
        reports = job.report(controller, "-np", 3)
        assert [report["uid"] for report in reports] == [nobody] * 3


# The signal comes while the ranks run; what they end with says nothing of it.
ENDED_BY_A_SIGNAL = """
import os, signal, time
from horovod.runner.common.util.settings import Settings
from horovod.runner.gloo_run import launch_gloo

def rank(command, slot, events):
    os.kill(os.getpid(), signal.SIGTERM)
    while not any(event.is_set() for event in events):
        time.sleep(0.01)
    return 0, time.time()

if __name__ == "__main__":
    settings = Settings(verbose=0, num_proc=2, hosts="localhost:2")
    launch_gloo(["train"], rank, settings, ["lo"], {}, "127.0.0.1")
"""


def test_a_signal_to_the_launcher_is_no_success(need, tmp_path):
    need("gloo")
    script = tmp_path / "launch.py"
    script.write_text(ENDED_BY_A_SIGNAL)
    result = subprocess.run([sys.executable, script], capture_output=True, text=True,
                            timeout=HANG_SECONDS)
    assert result.returncode == 1
    assert "A signal to horovodrun has ended the job." in result.stderr
