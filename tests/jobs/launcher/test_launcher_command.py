"""The command line with which `horovodrun` starts mpirun, seen by one that prints its arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import HANG_SECONDS

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
def launch(tmp_path):
    """Starts ranks with an mpirun whose --version prints `version`."""
    script = tmp_path / "launch.py"
    script.write_text(LAUNCH)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec cat "{tmp_path}/version"\n'
        'echo "$HYDRA_LAUNCHER_EXTRA_ARGS"\nprintf "%s\\n" "$@"\n'
    )
    mpirun.chmod(0o755)

    def launch(version: str, **settings: object) -> subprocess.CompletedProcess[str]:
        (tmp_path / "version").write_text(version)
        return subprocess.run(
            [sys.executable, str(script), json.dumps({"hosts": "localhost:4", **settings})],
            env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )

    return launch


@pytest.fixture
def command_line(launch):
    """The arguments that it gets."""

    def command_line(version: str, **settings: object) -> list[str]:
        done = launch(version, **settings)
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


@pytest.mark.parametrize("version, option", [(HYDRA, "-iface"), (OPEN_MPI_5, "btl_tcp_if_include")])
def test_the_interface_of_the_user(command_line, version, option):
    arguments = command_line(version, nics=["lo"])
    assert arguments[arguments.index(option) + 1] == "lo"


def test_several_interfaces_are_refused_for_hydra(launch):
    done = launch(HYDRA, nics=["eth1", "eth0"])
    assert done.returncode != 0
    assert "use one network interface, not eth0, eth1: give one with" in done.stderr
