"""The ways of docs/use/clusters.md to start ranks: each makes a job of a command and settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import mpijob
from slurm_daemons import Slurm

from horovod_lab.measuring.virtual_hosts import VirtualHosts

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "examples" / "clusters"
SLURM_NODES = 2  # that Slurm has; most jobs are on fewer
WORKERS = 2  # of the MPIJob
ELASTIC = "sbatch, elastic"
# What the operator gives to a launcher's pod; names of an Open MPI before version 5.
OPERATOR = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": str(mpijob.HOST_FILE),
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}


@dataclass(frozen=True)
class Place:
    """Where jobs run: `hosts` begins with the nodes of Slurm, and ends with the MPIJob's workers.
    A job has `ranks` on `nodes`, as many on each."""

    hosts: VirtualHosts
    slurm: Slurm
    nodes: int
    ranks: int

    def environment(self, folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
        """As of a shell in which this Python's environment is activated."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{self.hosts.path}"
        inherited = {name: text for name, text in os.environ.items()
                     if "HOROVOD" not in name and name != "PYTHONPATH"}
        root = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
        # More ranks than cores; modes other than off yield by themselves.
        few_cores = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
        return {**inherited, **root, **few_cores, "PATH": path, "TMPDIR": str(folder),
                "HOME": str(folder),  # horovodrun keeps there which hosts it has reached
                "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **settings}


class Batch:
    """A job of sbatch; by default on as many nodes as the place says."""

    def __init__(self, place: Place, script: str, folder: Path, program: Sequence[object],
                 settings: Mapping[str, str], nodes: int = 0):
        self._slurm = place.slurm
        self._folder = folder
        nodes = nodes or place.nodes
        self._job = self._slurm.submit(
            EXAMPLES / script, program, folder, place.environment(folder, settings),
            f"--nodes={nodes}", f"--ntasks-per-node={place.ranks // nodes}")

    def has_ended(self) -> bool:
        return self._slurm.state(self._job).has_ended

    def how(self) -> str:
        state = self._slurm.state(self._job)
        return f"{state.name} {state.code}"

    def has_succeeded(self) -> bool:
        return self.how() == "COMPLETED 0:0"

    def cancel(self) -> None:
        self._slurm.cancel(self._job)

    def output(self) -> str:
        file = self._folder / "output.txt"  # not there before the job begins
        return file.read_text(errors="replace") if file.exists() else ""


class Command:
    """A command that lasts as long as the job."""

    def __init__(self, place: Place, command: Sequence[object], folder: Path,
                 settings: Mapping[str, str], cwd: Path | None = None):
        self._output = folder / "output.txt"
        with self._output.open("w") as output:
            self._process = place.hosts.on_first(
                subprocess.Popen, [*map(str, command)], cwd=cwd or folder, text=True,
                env=place.environment(folder, settings), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def how(self) -> str:
        code = self._process.poll()
        return f"signal {-code}" if code < 0 else f"status {code}"

    def has_succeeded(self) -> bool:
        return self._process.poll() == 0

    def cancel(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def output(self) -> str:
        return self._output.read_text(errors="replace")


Job = Union[Batch, Command]
Start = Callable[[Place, Path, Sequence[object], Mapping[str, str]], Job]


def _sbatch(script: str, nodes: int = 0) -> Start:
    return lambda place, folder, program, settings: Batch(place, script, folder, program, settings,
                                                          nodes)


def _srun(place: Place, folder: Path, program: Sequence[object],
          settings: Mapping[str, str]) -> Job:
    options = ("--mpi=pmix", "--kill-on-bad-exit=1", f"--nodes={place.nodes}",
               f"--ntasks={place.ranks}")
    return Command(place, ["srun", *options, *program], folder, settings)


def _mpirun(place: Place, folder: Path, program: Sequence[object],
            settings: Mapping[str, str]) -> Job:
    hosts = ",".join(f"{name}:{place.ranks // place.nodes}"
                     for name in place.hosts.names[:place.nodes])
    return Command(place, [EXAMPLES / "mpirun.sh", *program], folder,
                   {**settings, "HOSTS": hosts})


def _mpijob(place: Place, folder: Path, program: Sequence[object],
            settings: Mapping[str, str]) -> Job:
    """The launcher's command of the manifest, on the first host, as the operator would run it. Its
    program and its settings are replaced."""
    launcher = mpijob.launcher(mpijob.read(EXAMPLES / "mpijob.yaml"))
    slots = place.ranks // WORKERS
    mpijob.HOST_FILE.parent.mkdir(exist_ok=True)
    mpijob.HOST_FILE.write_text(
        "".join(f"{name} slots={slots}\n" for name in place.hosts.names[-WORKERS:]))
    return Command(place, [*launcher["command"], *program], folder,
                   {**OPERATOR, **mpijob.settings(launcher), **settings}, ROOT / "examples")


WAYS: dict[str, Start] = {
    "sbatch, horovodrun": _sbatch("slurm_horovodrun.sh"),
    "sbatch, srun": _sbatch("slurm_srun.sh"),
    "sbatch, mpirun": _sbatch("mpirun.sh"),
    "srun": _srun,
    "mpirun": _mpirun,
    "MPIJob's command": _mpijob,
    ELASTIC: _sbatch("slurm_elastic.sh", SLURM_NODES),
}


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true within this time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True
