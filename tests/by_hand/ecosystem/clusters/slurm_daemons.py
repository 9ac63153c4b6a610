"""Slurm on virtual hosts: munge's key, slurm.conf, one slurmctld, and a slurmd on each host."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from horovod_lab.measuring.virtual_hosts import VirtualHosts

# libpmix-dev has the name libpmix.so, by which Debian's plugin for --mpi=pmix looks for libpmix2.
PACKAGES = ("slurm-wlm", "munge", "libpmix-dev")
START_SECONDS = 60
CONF = """
ClusterName=clusters
SlurmctldHost={first}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
MailProg=/bin/true
# The same way for each kind of control group; it is by parents that a job's processes are known.
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TaskPlugin={task_plugin}
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=86400
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# Needed for slurmd to start, although no plugin in use needs control groups.
CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL")


@dataclass(frozen=True)
class State:
    """Of a job, as Slurm tells it: COMPLETED, FAILED, RUNNING... `code` is status:signal."""

    name: str
    code: str

    @property
    def has_ended(self) -> bool:
        return self.name in ENDED


class Slurm:
    """Slurm's daemons, for nodes that are the first of the hosts and have `cpus` CPUs each,
    whatever the machine has. Raises OSError if one of them does not start."""

    def __init__(self, hosts: VirtualHosts, nodes: int, folder: Path, cpus: int):
        self._hosts = hosts
        self._nodes = hosts.names[:nodes]
        self._folder = folder
        self._environment = {**os.environ, "PATH": hosts.path}
        folder.mkdir()
        for name in ("state", *self._nodes):
            (folder / name).mkdir()
        real = os.cpu_count() or 1
        Path("/etc/slurm").mkdir(exist_ok=True)
        Path("/etc/slurm/cgroup.conf").write_text(CGROUP_CONF)
        Path("/etc/slurm/slurm.conf").write_text(CONF.format(
            folder=folder, first=self._nodes[0],
            # A task that is bound to a CPU that is not there does not start.
            task_plugin="task/affinity" if real >= cpus else "task/none",
            nodes="\n".join(f"NodeName={name} CPUs={cpus}" for name in self._nodes)))
        self._start_munge()
        self._daemons = [self._start("slurmctld", "-D", "-c")]
        self._daemons += [self._start("ssh", "-o", "StrictHostKeyChecking=no", name,
                                      "slurmd", "-D", "-c") for name in self._nodes]
        self._wait_until_idle()

    def _start_munge(self) -> None:
        key = self._folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {"--key-file": key, "--socket": self._folder / "munge.socket",
                 "--log-file": self._folder / "munge.log", "--pid-file": self._folder / "munge.pid",
                 "--seed-file": self._folder / "munge.seed"}
        subprocess.run(["munged", "--force", *(str(word) for option in files.items()
                                               for word in option)],
                       check=True, capture_output=True)

    def _start(self, *command: str) -> subprocess.Popen:
        return self._hosts.on_first(
            subprocess.Popen, command, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _wait_until_idle(self) -> None:
        until = time.monotonic() + START_SECONDS
        expected = sorted(f"{name} idle" for name in self._nodes)
        while True:
            listed = self.call("sinfo", "--noheader", "--Node", "--format=%N %t", check=False)
            if sorted(listed.split("\n")[:-1]) == expected:
                return
            if time.monotonic() > until:
                logs = "".join(f"\n{path.name}:\n{path.read_text()[-2000:]}"
                               for path in sorted(self._folder.glob("*.log")))
                raise OSError(f"Slurm has not started on {', '.join(self._nodes)}:{logs}")
            time.sleep(0.2)

    def call(self, *command: object, check: bool = True, cwd: Path | None = None,
             env: Mapping[str, str] | None = None) -> str:
        """What one of Slurm's commands prints, run on the first host. Raises OSError if it fails
        and `check`."""
        ended = self._hosts.on_first(
            subprocess.run, [*map(str, command)], text=True, capture_output=True, cwd=cwd,
            env=env or self._environment, stdin=subprocess.DEVNULL)
        if check and ended.returncode:
            raise OSError(f"{' '.join(map(str, command))}: {ended.stderr.strip()}")
        return ended.stdout

    def submit(self, script: Path, arguments: Sequence[object], folder: Path,
               env: Mapping[str, str], *options: str) -> int:
        """The job's number; what it prints goes to `folder`/output.txt."""
        listed = self.call("sbatch", "--parsable", f"--output={folder}/output.txt", *options,
                           script, *arguments, cwd=folder, env=env)
        return int(listed)

    def state(self, job: int) -> State:
        shown = self.call("scontrol", "--oneliner", "show", "job", job)
        return State(re.search(r"JobState=(\S+)", shown)[1], re.search(r"ExitCode=(\S+)", shown)[1])

    def cancel(self, job: int) -> None:
        self.call("scancel", job)

    def close(self) -> None:
        """Ends the daemons; what they wrote stays in the folder."""
        self.call("scontrol", "shutdown", check=False)
        subprocess.run(["munged", "--stop", f"--socket={self._folder}/munge.socket"],
                       capture_output=True)
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
