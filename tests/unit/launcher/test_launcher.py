"""How mpirun's options are spelled for each release, and which PATH the ranks get."""

from __future__ import annotations

import os
import sys

import pytest

from horovod_opt.launcher import environment

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
HYDRA = "HYDRA build details:\n    Version:                                 5.0.2\n"


@pytest.mark.parametrize(
    "version, major",
    [
        (OPEN_MPI_4, 4),
        (OPEN_MPI_5, 5),
        ("orterun (OpenRTE) 4.1.4\n", 4),
        ("mpirun (Open MPI) 5.1.0rc1\n", 5),
        ("a warning of the site\nmpirun (Open MPI) 10.0.0\n", 10),
        (HYDRA, None),
        ("", None),
    ],
)
def test_major_version(version, major):
    assert environment.open_mpi_major(version) == major


ACCEPTED_BY_BOTH = [
    "mpirun --allow-run-as-root --tag-output -np 4 -H localhost:4",
    "--bind-to none --map-by slot --mca pml ob1",
    "-x PATH -x NCCL_SOCKET_IFNAME=lo -x mca",
    "--output-filename /data/run-map-by",
    "-report-bindings -bind-to-core",
]


@pytest.mark.parametrize("options", ACCEPTED_BY_BOTH)
@pytest.mark.parametrize("version", [OPEN_MPI_4, OPEN_MPI_5])
def test_options_that_every_release_accepts_stay(version, options):
    assert environment.open_mpi_options(options, version) == options


RESPELLED = [
    ("-bind-to none -map-by slot", "--bind-to none --map-by slot"),
    ("-np 2 -rank-by slot", "-np 2 --rank-by slot"),
    ("-mca pml ob1 -mca btl ^openib", "--mca pml ob1 --mca btl ^openib"),
    ('-mca plm_rsh_args "-p 22 -i key"', '--mca plm_rsh_args "-p 22 -i key"'),
    ("-map-by\tslot\n-bind-to core", "--map-by\tslot\n--bind-to core"),
    ("-bind-to", "--bind-to"),
]


@pytest.mark.parametrize("options, respelled", RESPELLED)
def test_options_that_open_mpi_5_refuses(options, respelled):
    assert environment.open_mpi_options(options, OPEN_MPI_5) == respelled


@pytest.mark.parametrize("version", [OPEN_MPI_4, "orterun (OpenRTE) 3.1.3\n", HYDRA, ""])
@pytest.mark.parametrize("options, _", RESPELLED)
def test_options_of_other_launchers_stay(version, options, _):
    assert environment.open_mpi_options(options, version) == options


@pytest.fixture
def interpreter(monkeypatch):
    """Pretend to be an interpreter: its executable, and whether it is a virtual environment's."""

    def pretend(executable: str, virtual: bool) -> None:
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(sys, "prefix", "/env" if virtual else "/usr")
        monkeypatch.setattr(sys, "base_prefix", "/usr")

    return pretend


@pytest.mark.parametrize(
    "path, expected",
    [
        ("/usr/bin:/bin", "/env/bin:/usr/bin:/bin"),
        ("/usr/bin:/env/bin:/bin", "/env/bin:/usr/bin:/bin"),
        ("/env/bin:/usr/bin", "/env/bin:/usr/bin"),
        ("/bin::/sbin", "/env/bin:/bin::/sbin"),
    ],
)
def test_virtual_environment_comes_first(interpreter, path, expected):
    interpreter("/env/bin/python3", virtual=True)
    assert environment.environment({"PATH": path})["PATH"] == expected


@pytest.mark.parametrize(
    "path, expected",
    [
        ("/opt/mpi/bin:/usr/bin:/bin", "/opt/mpi/bin:/usr/bin:/bin"),
        ("/opt/mpi/bin:/bin", "/usr/bin:/opt/mpi/bin:/bin"),
    ],
)
def test_installed_interpreter_hides_nothing_that_was_found_before(interpreter, path, expected):
    interpreter("/usr/bin/python3", virtual=False)
    assert environment.environment({"PATH": path})["PATH"] == expected


def test_environment_without_path_keeps_the_system_commands(interpreter):
    interpreter("/env/bin/python3", virtual=True)
    assert environment.environment({})["PATH"] == os.pathsep.join(["/env/bin", os.defpath])


def test_environment_is_a_copy_with_everything_else_kept(interpreter):
    interpreter("/env/bin/python3", virtual=True)
    environ = {"PATH": "/bin", "HOROVOD_OPT_MODE": "nbcs", "EMPTY": "", "LINES": "a\nb"}
    result = environment.environment(environ)
    assert environ["PATH"] == "/bin"
    assert {**result, "PATH": "/bin"} == environ
