"""How many ranks `horovodrun` starts, and on which hosts, when it is not told by -np."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from horovod_opt import cpu_set
from horovod_opt.launcher import slurm_step

CPUS_PER_RANK = 4


@dataclass(frozen=True)
class Choice:
    """A number of ranks and the reason for it; `hosts` as for -H, None if that stays as it is."""

    ranks: int
    reason: str
    hosts: str | None = None


def complete(args: argparse.Namespace, hosts: str | None) -> None:
    """Fills in `args.num_proc`, and `args.hosts` under Slurm; one line on stderr says why.

    `hosts` are those of -H or --hostfile as name:slots,name:slots. Ends the program if an elastic
    job is not told how many ranks it needs.
    """
    if args.min_num_proc:
        choice = Choice(args.min_num_proc, "--min-np")
    elif args.host_discovery_script:
        sys.exit("horovodrun: a job with --host-discovery-script needs -np or --min-np, the number "
                 "of ranks to start with")
    else:
        choice = choose(hosts, os.environ)
    args.num_proc = choice.ranks
    args.hosts = args.hosts or choice.hosts
    print(f"horovodrun: {choice.ranks} rank{'s' if choice.ranks > 1 else ''}: {choice.reason}; "
          "-np sets another number", file=sys.stderr, flush=True)


def choose(hosts: str | None, environ: Mapping[str, str]) -> Choice:
    """By the slots of the hosts or of the Slurm allocation, else by GPUs, else by CPUs."""
    if hosts:
        return Choice(_count_ranks(hosts), f"the slots of the hosts {hosts}")
    if environ.get("SLURM_JOB_NODELIST") and environ.get("SLURM_TASKS_PER_NODE"):
        hosts = slurm_hosts(environ["SLURM_JOB_NODELIST"], environ["SLURM_TASKS_PER_NODE"])
        return Choice(_count_ranks(hosts), f"the tasks of Slurm's allocation, {hosts}", hosts)
    gpus = count_gpus(environ)
    if gpus:
        return Choice(gpus, "one for each GPU")
    cpus = usable_cpus()
    ranks = ranks_for(cpus)
    if cpus >= 2 * CPUS_PER_RANK:
        return Choice(ranks, f"no GPU, and one for {CPUS_PER_RANK} of {cpus} CPUs")
    return Choice(ranks, f"no GPU, and {cpus} CPU{'s' if cpus > 1 else ''}")


def ranks_for(cpus: int) -> int:
    return cpus // CPUS_PER_RANK if cpus >= 2 * CPUS_PER_RANK else min(cpus, 2)


def _count_ranks(hosts: str) -> int:
    """Of name:slots,name:slots. Raises SystemExit with the entry that is not of that form."""
    for host in hosts.split(","):
        if not re.fullmatch(r"[\w.-]+:\d+", host.strip()):
            sys.exit(f"horovodrun: {host.strip()!r} of the hosts {hosts!r} is not of the form "
                     "name:slots")
    return sum(int(host.rpartition(":")[2]) for host in hosts.split(","))


# Slurm


def slurm_hosts(nodes: str, tasks: str) -> str:
    """name:slots,... from SLURM_JOB_NODELIST, n[1-2], and SLURM_TASKS_PER_NODE, 4(x2)."""
    names = expand_nodes(nodes)
    try:
        counts = slurm_step.tasks_by_node(tasks)
    except ValueError:
        sys.exit(f"horovodrun: SLURM_TASKS_PER_NODE={tasks} cannot be read; use -np and -H")
    if len(names) != len(counts):
        sys.exit(f"horovodrun: SLURM_JOB_NODELIST={nodes} names {len(names)} hosts, and "
                 f"SLURM_TASKS_PER_NODE={tasks} is for {len(counts)}; use -np and -H")
    return ",".join(f"{name}:{number}" for name, number in zip(names, counts))


def expand_nodes(nodes: str) -> list[str]:
    """n[08-10,12],login: n08, n09, n10, n12, login; zeros in front are kept."""
    hosts = []
    for word in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodes):
        names = [""]
        for fixed, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", word):
            ends = [fixed] if fixed else _expand(ranges)
            names = [name + end for name in names for end in ends]
        hosts += names
    return hosts


def _expand(ranges: str) -> list[str]:
    numbers = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers += [str(number).zfill(len(first)) for number in range(int(first),
                                                                      int(last or first) + 1)]
    return numbers


# GPUs


def count_gpus(environ: Mapping[str, str]) -> int:
    """Those that nvidia-smi lists and CUDA_VISIBLE_DEVICES leaves."""
    total = _installed_gpus(environ)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if not total or visible is None:
        return total
    count = 0
    for device in visible.split(","):  # CUDA stops at the first that it does not know
        number = re.fullmatch(r"\d+", device.strip())
        if int(device) >= total if number else not re.match("GPU-|MIG-", device.strip()):
            break
        count += 1
    return count


def _installed_gpus(environ: Mapping[str, str]) -> int:
    command = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if not command:
        return 0
    try:
        answer = subprocess.run([command, "-L"], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return len(re.findall(r"^GPU \d+:", answer.stdout, re.MULTILINE)) * (answer.returncode == 0)


# CPUs


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs of this process' affinity, or fewer if its control group may not use them all."""
    cpus = len(cpu_set.allowed_cpus())
    quota = cpu_quota(root)
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the control groups (version 1 or 2) of this process may use at once, None if
    there is no limit."""
    limits = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, read = root / "sys/fs/cgroup", _quota_2
        elif "cpu" in controllers.split(","):
            top, read = root / "sys/fs/cgroup" / controllers, _quota_1
            if not top.is_dir():
                top = root / "sys/fs/cgroup/cpu"
        else:
            continue
        # In a container the group's own path may be missing, and its top is the container's group.
        folder = top / group.lstrip("/")
        limits += [read(place) for place in (folder, *folder.parents) if place.is_relative_to(top)]
    return min((limit for limit in limits if limit is not None), default=None)


def _quota_2(folder: Path) -> float | None:
    return _cpus(" ".join(_lines(folder / "cpu.max")).split())


def _quota_1(folder: Path) -> float | None:
    return _cpus(_lines(folder / "cpu.cfs_quota_us") + _lines(folder / "cpu.cfs_period_us"))


def _cpus(words: list[str]) -> float | None:
    """From a quota and its period, both in us; there is no limit if the quota is max or -1."""
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return int(words[0]) / int(words[1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
