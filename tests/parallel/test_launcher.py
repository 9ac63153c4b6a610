"""`horovodrun` under the MPI of this environment, and under Gloo: jobs that need no framework.

Every job starts as from a shell that has not activated the environment. Ranks write what they
see into files, since each MPI prefixes and interleaves standard output in its own way.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from jobs import BIN, worker_file

INSTALLED = (BIN / "horovodrun",)  # imports every framework to learn what was built
QUICK = (sys.executable, worker_file("horovodrun"))
VIRTUAL = sys.prefix != sys.base_prefix
SECONDS = 120

RANK_VARIABLES = ["HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]
SIZE_VARIABLES = ["HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]

REPORT = f"""
import json, os, sys
rank, size = (next(os.environ[name] for name in names if name in os.environ)
              for names in ({RANK_VARIABLES}, {SIZE_VARIABLES}))
seen = dict(rank=int(rank), size=int(size), prefix=sys.prefix, uid=os.getuid(),
            arguments=sys.argv[2:], environment=dict(os.environ))
with open(os.path.join(sys.argv[1], rank), "w") as report:
    json.dump(seen, report)
sys.stdout.write("out of rank " + rank + "\\n")
"""

VALUES = {
    "HOROVOD_OPT_MODE": "nbcs",
    "HOROVOD_FUSION_THRESHOLD": "1048576",
    "LAUNCHER_QUOTES": 'it\'s "$HOME" ; * \\ , =',
    "LAUNCHER_LINES": "one\ntwo",
    "LAUNCHER_EMPTY": "",
}


def as_user(user: int | None) -> list[str]:
    """What to put before a command, so that this user runs it. It may read all files: Python may be
    installed where only root can."""
    if not user:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
            "--securebits=+no_setuid_fixup"]  # without it, access(2) forgets the capability


@dataclass
class Job:
    """One run of horovodrun in a folder of its own."""

    folder: Path
    command: tuple[str | Path, ...] = QUICK
    user: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    code: int = 0
    output: str = ""

    def run(self, *arguments: object) -> Job:
        environ = {**os.environ, **self.environment, "HOME": str(self.folder)}
        if not self.user:
            environ["TMPDIR"] = str(self.folder)  # see jobs.py
        environ.pop("VIRTUAL_ENV", None)
        environ.pop("PYTHONUNBUFFERED", None)
        path = [entry for entry in environ["PATH"].split(os.pathsep) if Path(entry) != BIN]
        environ["PATH"] = os.pathsep.join(path)
        process = subprocess.Popen(
            [*as_user(self.user), *map(str, self.command), *map(str, arguments)],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            self.output, _ = process.communicate(timeout=SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.code = process.returncode
        return self

    def report(self, *options: object, arguments: tuple[str, ...] = ()) -> list[dict]:
        """Run the report script with `python`; what each rank saw, in rank order."""
        script = self.folder / "report.py"
        script.write_text(REPORT)
        reports = self.folder / "reports"
        reports.mkdir(exist_ok=True)
        if self.user:
            os.chown(reports, self.user, self.user)
        self.run(*options, "python", script, reports, *arguments)
        assert self.code == 0, self.output
        seen = [json.loads(path.read_text()) for path in reports.iterdir()]
        return sorted(seen, key=lambda each: each["rank"])


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def one_core():
    """Let this thread, and with it the jobs it starts, have one core."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.fixture(params=["mpi", "gloo"])
def controller(request, need) -> str:
    need(request.param)
    return f"--{request.param}"


@pytest.fixture
def mpi(need) -> str:
    """What the environment's mpirun says of its version."""
    need("mpi")
    mpirun = BIN / "mpirun"
    command = str(mpirun) if mpirun.exists() else "mpirun"
    return subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout


def test_installed_command(job, controller):
    job.command = INSTALLED
    assert [each["prefix"] for each in job.report(controller, "-np", 2)] == [sys.prefix] * 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_arguments_and_environment(job, controller, ranks):
    job.environment = VALUES
    arguments = ("-bind-to", "two words", "--lr=0.1")
    seen = job.report(controller, "-np", ranks, arguments=arguments)
    assert [each["rank"] for each in seen] == list(range(ranks))
    for each in seen:
        assert each["size"] == ranks
        assert each["prefix"] == sys.prefix
        assert each["uid"] == os.getuid()
        assert tuple(each["arguments"]) == arguments
        assert {name: each["environment"].get(name) for name in VALUES} == VALUES


# Without -np


@pytest.fixture
def three_gpus(tmp_path) -> dict[str, str]:
    """An environment with an nvidia-smi that lists them."""
    command = tmp_path / "gpus" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\nfor i in 0 1 2; do echo GPU $i: NVIDIA H100; done\n")
    command.chmod(0o755)
    return {"PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])}


@pytest.mark.usefixtures("one_core")
def test_ranks_for_the_cpus(job, controller):
    assert len(job.report(controller)) == 1
    assert "horovodrun: 1 rank: no GPU, and 1 CPU; -np sets another number" in job.output


def test_ranks_for_the_gpus(job, controller, three_gpus):
    job.environment = three_gpus
    assert len(job.report(controller)) == 3
    assert "horovodrun: 3 ranks: one for each GPU" in job.output


def test_ranks_for_the_gpus_that_are_visible(job, controller, three_gpus):
    job.environment = {**three_gpus, "CUDA_VISIBLE_DEVICES": "0,2"}
    assert len(job.report(controller)) == 2


def test_ranks_for_the_slots_of_the_hosts(job, controller, three_gpus):
    job.environment = three_gpus
    assert len(job.report(controller, "-H", "localhost:2")) == 2
    assert "horovodrun: 2 ranks: the slots of the hosts localhost:2" in job.output


def test_ranks_for_the_slots_of_a_host_file(job, controller):
    file = job.folder / "hosts"
    file.write_text("localhost slots=3\n")
    assert len(job.report(controller, "--hostfile", file)) == 3


def test_ranks_for_the_tasks_of_slurm(job, need, three_gpus):
    need("gloo")
    job.environment = {**three_gpus, "SLURM_JOB_NODELIST": "localhost",
                       "SLURM_TASKS_PER_NODE": "2"}
    assert len(job.report("--gloo")) == 2
    assert "horovodrun: 2 ranks: the tasks of Slurm's allocation, localhost:2" in job.output


def test_no_command(job):
    job.run()
    assert job.code == 2
    assert "no command to run" in job.output


@pytest.mark.usefixtures("one_core")
def test_more_ranks_than_cores(job, controller):
    assert len(job.report(controller, "-np", 4)) == 4


@pytest.mark.usefixtures("one_core", "mpi")
def test_fewer_ranks_than_slots(job):
    assert len(job.report("--mpi", "-np", 3, "-H", "localhost:4")) == 3


def test_more_ranks_than_slots_of_open_mpi(job, mpi):
    if "HYDRA" in mpi:
        pytest.skip("Hydra fills the host beyond its slots")
    job.run("--mpi", "-np", 3, "-H", "localhost:2", "true")
    assert job.code != 0
    assert "not enough slots" in job.output


@pytest.mark.skipif(not VIRTUAL, reason="only a virtual environment comes before all of PATH")
def test_other_environments_in_path_are_not_used(job, controller):
    impostors = job.folder / "impostors"
    impostors.mkdir()
    for name in ["python"] + ["mpirun"] * (BIN / "mpirun").exists():
        (impostors / name).write_text("#!/bin/sh\nexit 99\n")
        (impostors / name).chmod(0o755)
    job.environment = {"PATH": os.pathsep.join([str(impostors), os.environ["PATH"]])}
    assert [each["prefix"] for each in job.report(controller, "-np", 2)] == [sys.prefix] * 2


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
    job.run("--gloo", "-np", 2, "python", "-c", FAIL, 10 * SECONDS)
    assert job.code == 1
    assert "Exit code: 7" in job.output


def test_options_of_horovodrun_reach_mpirun(job, mpi):
    if "Open MPI" not in mpi and "OpenRTE" not in mpi:
        pytest.skip("spells its options differently")
    seen = job.report(
        "--mpi", "-np", 2, "--verbose", "--network-interfaces", "lo",
        "--binding-args=-bind-to none -map-by slot:OVERSUBSCRIBE",
        "--mpi-args=-mca btl_base_verbose 0 -x LAUNCHER_ADDED=yes",
        "--output-filename", job.folder / "printed",
    )  # fmt: skip
    for each in seen:
        assert each["environment"]["OMPI_MCA_btl_tcp_if_include"] == "lo"
        assert each["environment"]["OMPI_MCA_btl_base_verbose"] == "0"
        assert each["environment"]["OMPI_MCA_pml"] == "ob1"
        assert each["environment"]["LAUNCHER_ADDED"] == "yes"
        assert each["environment"]["NCCL_SOCKET_IFNAME"] == "lo"
    assert "slot:OVERSUBSCRIBE" in job.output
    assert_printed(job.folder)


def test_options_of_horovodrun_reach_hydra(job, mpi):
    if "HYDRA" not in mpi:
        pytest.skip("spells its options differently")
    seen = job.report(
        "--mpi", "-np", 2, "--verbose", "--network-interfaces", "lo",
        "--binding-args=-bind-to user:0",
        "--mpi-args=-genv LAUNCHER_ADDED yes",
        "--output-filename", job.folder / "printed.%r",
    )  # fmt: skip
    for each in seen:
        assert each["environment"]["LAUNCHER_ADDED"] == "yes"
        assert each["environment"]["NCCL_SOCKET_IFNAME"] == "lo"
    assert "-bind-to user:0" in job.output
    assert_printed(job.folder)


def assert_printed(folder: Path) -> None:
    """mpirun names the files; each rank's line must be in one of them."""
    files = [path for path in folder.rglob("*") if "printed" in str(path) and path.is_file()]
    text = "".join(path.read_text() for path in files)
    assert "out of rank 0" in text
    assert "out of rank 1" in text


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
    (seen,) = job.report("--mpi", "-np", 1)
    assert seen["environment"]["NCCL_SOCKET_IFNAME"] == "ib0"


def test_ordinary_user(controller):
    if os.getuid() != 0:
        pytest.skip("every test here already runs as an ordinary user")
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, nobody, nobody)
        job = Job(folder, INSTALLED, user=nobody)
        seen = job.report(controller, "-np", 3)
        assert [each["uid"] for each in seen] == [nobody] * 3


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
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True,
                           timeout=SECONDS)
    assert ended.returncode == 1
    assert "A signal to horovodrun has ended the job." in ended.stderr


# The command line itself, with an mpirun that prints its arguments one a line.

LAUNCH = """
import json, os, sys
from horovod.runner import mpi_run
from horovod.runner.common.util.settings import Settings

if __name__ == "__main__":
    environment = {"PATH": os.environ["PATH"], "HOROVOD_OPT_MODE": "nbcs"}
    settings = Settings(num_proc=4, verbose=0, **json.loads(sys.argv[1]))
    mpi_run.mpi_run(settings, ["lo"], environment, ["train", "-bind-to", "two words"])
"""

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.4"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11"
HYDRA = "HYDRA build details:\n    Version:    5.0.2\n    CC:    cc"


@pytest.fixture
def command_line(tmp_path):
    """The arguments mpirun gets when its --version prints `version`."""
    script = tmp_path / "launch.py"
    script.write_text(LAUNCH)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec cat "{tmp_path}/version"\n'
        'echo "$HYDRA_LAUNCHER_EXTRA_ARGS"\nprintf "%s\\n" "$@"\n'
    )
    mpirun.chmod(0o755)

    def command_line(version: str, **settings: str) -> list[str]:
        (tmp_path / "version").write_text(version)
        done = subprocess.run(
            [sys.executable, str(script), json.dumps({"hosts": "localhost:4", **settings})],
            env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        ssh, *arguments = done.stdout.splitlines()
        return [ssh, *arguments] if ssh else arguments

    return command_line


TRAIN = ["train", "-bind-to", "two words"]
EXPORTED = ["-x", "NCCL_SOCKET_IFNAME=lo", "-x", "HOROVOD_OPT_MODE", "-x", "PATH"]


@pytest.mark.parametrize("version, dash", [(OPEN_MPI_4, "-"), (OPEN_MPI_5, "--")])
def test_command_line_for_open_mpi(command_line, version, dash):
    assert command_line(version) == [
        "--allow-run-as-root", "--tag-output", "-np", "4", "-H", "localhost:4",
        f"{dash}bind-to", "none", f"{dash}map-by", "slot",
        f"{dash}mca", "pml", "ob1", f"{dash}mca", "btl", "^openib",
        f"{dash}mca", "btl_tcp_if_include", "lo", *EXPORTED, *TRAIN,
    ]  # fmt: skip


@pytest.mark.parametrize("version, dash", [(OPEN_MPI_4, "-"), (OPEN_MPI_5, "--")])
def test_user_options_for_open_mpi(command_line, version, dash):
    arguments = command_line(
        version, binding_args="-bind-to core", extra_mpi_args="-mca a b", ssh_port="22"
    )
    joined = " ".join(arguments)
    assert f" {dash}bind-to core " in joined
    assert f" {dash}mca a b train -bind-to two words" in joined
    assert arguments[arguments.index("plm_rsh_args") - 1] == f"{dash}mca"
    assert arguments[arguments.index("plm_rsh_args") + 1] == "-p 22"


SEVERAL_HOSTS = {"hosts": "localhost:2,elsewhere.invalid:2"}


@pytest.mark.parametrize("version", [OPEN_MPI_4, OPEN_MPI_5])
def test_ranks_on_several_hosts_say_how_they_ended(command_line, version):
    arguments = command_line(version, **SEVERAL_HOSTS)
    *_, python, isolated, no_site, script, first, second, third = arguments
    assert [python, isolated, no_site] == [sys.executable, "-I", "-S"]
    assert Path(script).name == "rank_end.py"
    assert [first, second, third] == TRAIN
    assert arguments[arguments.index("HOROVOD_OPT_LAUNCHER") - 1] == "-x"


def test_ranks_under_hydra_are_started_as_they_are(command_line):
    arguments = command_line(HYDRA, **SEVERAL_HOSTS)
    assert arguments[-len(TRAIN) - 1 :] == ["NCCL_SOCKET_IFNAME=lo", *TRAIN]


def test_command_line_for_hydra(command_line):
    assert command_line(HYDRA) == [
        "-l", "-np", "4", "-ppn", "4", "-hosts", "localhost", "-bind-to", "none",
        "-map-by", "slot", "-genv", "NCCL_SOCKET_IFNAME=lo", *TRAIN,
    ]  # fmt: skip


def test_user_options_for_hydra(command_line):
    ssh, *arguments = command_line(
        HYDRA, binding_args="-bind-to core", ssh_port="22", ssh_identity_file="key"
    )
    assert ssh == "-p 22 -i key"
    assert " -bind-to core -launcher ssh -genv " in " ".join(arguments)
