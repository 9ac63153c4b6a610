"""`horovod-opt doctor`: its findings, and the command on an installation made of fakes."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from rich.console import Console

from horovod_opt import cli
from horovod_opt.doctor import inspection, tables
from horovod_opt.doctor.findings import examine
from horovod_opt.doctor.inspection import Facts, Framework
from horovod_opt.native import header
from horovod_opt.settings import Settings

ROOT = Path(__file__).parents[3]
OPEN_MPI = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11"
MPICH = "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25 20:45:26 UTC 2026\n"
HYDRA = "HYDRA build details:\n    Version:                                 5.0.2\n"

HEALTHY_TORCH = Framework(
    name="torch",
    installed="2.13.0+cpu",
    built_against="2.13.0+cpu",
    library="/env/horovod/torch/mpi_lib_v2.so",
    parts={"MPI": True, "Gloo": True, "NCCL": False},
    abi=header.HASH,
    libmpi="/env/lib/libmpi.so.40",
    mpi_version=OPEN_MPI,
)
HEALTHY = Facts(
    ranks=2,
    horovod="0.28.1+opt.0.1.0",
    horovod_path="/env/horovod/__init__.py",
    upstream_installed=False,
    frameworks=(HEALTHY_TORCH,),
    mpirun="/env/bin/mpirun",
    mpirun_version="Open MPI 5.0.11",
    cpus=(0, 1, 2, 3),
    cores=4,
    shm_free_mib=1024,
    memfd_error="",
    settings=Settings(mode="nbcs+scp"),
    settings_error="",
    ineffective=(),
)


def facts(torch: dict | None = None, **changes: object) -> Facts:
    """A healthy installation, changed."""
    frameworks = (dataclasses.replace(HEALTHY_TORCH, **(torch or {})),)
    return dataclasses.replace(HEALTHY, **{"frameworks": frameworks, **changes})


def test_nothing_is_wrong():
    assert examine(HEALTHY) == []


@pytest.mark.parametrize(
    "sick, says",
    [
        (facts(horovod="", frameworks=()), "No horovod can be imported."),
        (facts(horovod="0.28.1"), "not ours but version 0.28.1, /env/horovod/__init__.py"),
        (facts(upstream_installed=True), "horovod and horovod-opt are both installed"),
        (facts(frameworks=()), "built for no framework (none installed)"),
        (facts({"error": "ImportError: libtorch.so"}), "does not load: ImportError: libtorch.so"),
        (facts({"installed": "2.14.0"}), "built against torch 2.13.0+cpu, but 2.14.0 is installed"),
        (facts({"abi": "0123"}), f"native interface 0123, Python's is {header.HASH}"),
        (facts({"abi": ""}), "native interface of upstream"),
        (facts(mpirun="", mpirun_version=""), "mpirun is neither on PATH"),
        (facts(mpirun_version="MPICH 5.0.2"), "uses Open MPI 5.0.11 (/env/lib/libmpi.so.40), but"),
        (facts({"mpi_version": MPICH}), "uses MPICH 5.0.2"),
        (facts(shm_free_mib=31), "/dev/shm has 31 MiB free; 2 ranks need up to 32 MiB"),
        (facts(cores=3), "4 for 2 on this node; this process may use 3. Remedy: at most 1 ranks"),
        (
            facts(settings=Settings(mode="scp", scp_core=2)),
            "HOROVOD_OPT_SCP_CORE=2 is not a core of a rank that has 2. Valid: -2 to 1.",
        ),
        (
            facts({"parts": {"MPI": False, "Gloo": True}, "mpi_version": "", "libmpi": ""}),
            "nbcs changes nothing for torch, which was built without MPI",
        ),
        (facts(settings=None, settings_error="HOROVOD_OPT_MODE='x': no"), "HOROVOD_OPT_MODE='x'"),
    ],
)
def test_each_problem_alone(sick, says):
    findings = examine(sick)
    assert [finding.problem for finding in findings] == [True]
    assert says in findings[0].text


@pytest.mark.parametrize(
    "odd, says",
    [
        (facts(ineffective=("HOROVOD_OPT_GS_INTERVAL",)), "HOROVOD_OPT_GS_INTERVAL has no effect"),
        (
            facts(frameworks=(HEALTHY_TORCH, Framework("tensorflow", "2.21.0"))),
            "tensorflow 2.21.0 is installed, but Horovod was not built for it",
        ),
        (
            facts(settings=Settings(), cores=1),
            "2 ranks share 1 cores. Open MPI's own mpirun offers 1 slots",
        ),
        (
            facts(memfd_error="Operation not permitted", settings=Settings(mode="auto")),
            "HOROVOD_OPT_MODE=auto: 2 ranks can share no memory here (memfd_create: Operation not "
            "permitted): planned tensors are reduced as if each rank had a node of its own",
        ),
        (
            facts({"name": "mxnet"}, settings=Settings(mode="topo")),
            "HOROVOD_OPT_MODE=topo: the tensors of mxnet are negotiated; only those of TensorFlow",
        ),
    ],
)
def test_notes_are_no_problems(odd, says):
    findings = examine(odd)
    assert [finding.problem for finding in findings] == [False]
    assert says in findings[0].text


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
@pytest.mark.parametrize("mode", ["topo", "auto"])
def test_frameworks_with_plans_need_no_note(framework, mode):
    assert examine(facts({"name": framework}, settings=Settings(mode=mode))) == []


def test_gloo_alone_needs_no_mpi():
    gloo = {"parts": {"MPI": False, "Gloo": True}, "mpi_version": "", "libmpi": ""}
    assert examine(facts(gloo, mpirun="", mpirun_version="", settings=Settings(mode="gs"))) == []


@pytest.mark.parametrize(
    "text, name",
    [
        (OPEN_MPI, "Open MPI 5.0.11"),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to", "Open MPI 5.0.11"),
        ("mpirun (Open MPI) 4.1.4", "Open MPI 4.1.4"),
        (MPICH, "MPICH 5.0.2"),
        (HYDRA, "MPICH 5.0.2"),
        ("Some MPI\n2.0", "Some MPI"),
        ("", ""),
    ],
)
def test_names_of_mpis(text, name):
    assert inspection.mpi_name(text) == name


def test_ranks_of_the_job(monkeypatch):
    assert inspection.local_size({}) == 1
    assert inspection.local_size({"OMPI_COMM_WORLD_LOCAL_SIZE": "3"}) == 3
    assert inspection.local_size({"MPI_LOCALNRANKS": "4"}) == 4
    assert inspection.local_size({"HOROVOD_LOCAL_SIZE": "2", "MPI_LOCALNRANKS": "4"}) == 2
    srun = {"SLURM_STEP_TASKS_PER_NODE": "3(x2)", "SLURM_NODEID": "1"}
    assert inspection.local_size(srun) == 3
    assert inspection.local_size({**srun, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}) == 2


def test_memory_without_a_name():
    """A process that may open nothing more cannot have any."""
    assert inspection._memfd_error() == ""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert inspection._memfd_error() == os.strerror(errno.EMFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_other_modes_and_one_rank_need_no_memory_without_a_name():
    missing = {"memfd_error": "Function not implemented"}
    assert examine(facts(**missing)) == []
    topo = facts({"name": "tensorflow"}, **missing, ranks=1, settings=Settings(mode="topo"))
    assert examine(topo) == []


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A framework `torch`, a patched horovod built for it, an MPI library and its mpirun."""
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0+cpu'\n")
    native = tmp_path / "horovod" / "torch"
    native.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").write_text("__version__ = '0.28.1+opt.0.1.0'\n")
    (tmp_path / "horovod" / "metadata.json").write_text('{"pytorch": "2.13.0+cpu"}')
    (native / "mpi.c").write_text(
        "#include <string.h>\n"
        "int MPI_Get_library_version(char* text, int* length) {\n"
        f'  strcpy(text, "{OPEN_MPI}"); *length = strlen(text); return 0; }}\n'
    )
    (native / "lib.c").write_text(
        "#include <stdbool.h>\n"
        "int MPI_Get_library_version(char*, int*);\n"
        "void* keep = MPI_Get_library_version;\n"
        f'const char* horovod_opt_abi(void) {{ return "{header.HASH}"; }}\n'
        "bool horovod_mpi_built(void) { return true; }\n"
        "bool horovod_gloo_built(void) { return true; }\n"
        "int horovod_nccl_built(void) { return 22304; }\n"
        "bool horovod_cuda_built(void) { return false; }\n"
        "bool horovod_rocm_built(void) { return false; }\n"
    )
    library = "mpi_lib_v2" + sysconfig.get_config_var("EXT_SUFFIX")
    shared = ["gcc", "-shared", "-fPIC"]
    mpi = [*shared, "mpi.c", "-o", "libmpi.so.40", "-Wl,-soname,libmpi.so.40"]
    lib = [*shared, "lib.c", "-o", library, "libmpi.so.40", f"-Wl,-rpath,{native}"]
    subprocess.run(mpi, cwd=native, check=True)
    subprocess.run(lib, cwd=native, check=True)
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "bin" / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    return tmp_path


def run_doctor(fakes: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess:
    paths = {
        "PYTHONPATH": f"{fakes}{os.pathsep}{ROOT}",
        "PATH": f"{fakes / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, "-m", "horovod_opt.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **paths, **environ},
    )


def test_a_healthy_installation(fakes):
    answer = run_doctor(fakes, "--json", "-np", "1", HOROVOD_OPT_MODE="gs+nbcs")
    report = json.loads(answer.stdout)
    torch = next(f for f in report["frameworks"] if f["name"] == "torch")
    assert torch["installed"] == torch["built_against"] == "2.13.0+cpu"
    built = {"MPI", "Gloo", "NCCL"}
    assert torch["parts"] == {part: part in built for part in [*built, "CUDA", "ROCm"]}
    assert torch["mpi_version"] == OPEN_MPI
    assert torch["libmpi"].endswith("libmpi.so.40")
    assert report["mpirun_version"] == "Open MPI 5.0.11"
    assert report["settings"]["mode"] == "gs+nbcs"
    assert report["cores"] >= 1
    # The machine may be short of something, the installation is not.
    assert [f["text"] for f in report["findings"] if f["problem"]] == []
    assert answer.returncode == 0


def test_the_tables(fakes):
    answer = run_doctor(fakes, "-np", "1", HOROVOD_OPT_MODE="nbcs", COLUMNS="200")
    for text in ["0.28.1+opt.0.1.0", "2.13.0+cpu", "MPI, Gloo, NCCL", "Open MPI 5.0.11", "nbcs"]:
        assert text in answer.stdout
    assert answer.returncode == 0


@pytest.mark.parametrize("parts, tcp, way", [
    ({"MPI": True, "Gloo": True}, 1, "MPI or TCP, whichever is faster in a trial of hvd.init()"),
    ({"MPI": True, "Gloo": True}, 0, "MPI, as HOROVOD_OPT_TCP_MESSAGES is 0; TCP with --gloo"),
    ({"MPI": True, "Gloo": False}, 0, "MPI, as HOROVOD_OPT_TCP_MESSAGES is 0"),
    ({"MPI": False, "Gloo": True}, 1, "TCP, as Horovod was built without MPI"),
])
def test_how_nodes_exchange_messages(parts, tcp, way, capsys):
    settings = Settings(mode="topo", message_memory_mb=7, tcp_messages=tcp)
    tables.show(facts({"parts": parts}, settings=settings), [], Console(width=200))
    row = f"{way}; memory of a rank: up to 7 MiB, and 1 MiB for each bucket on its way"
    assert f" {row} " in capsys.readouterr().out
    tables.show(facts({"parts": parts}), [], Console(width=200))
    assert "messages between nodes" not in capsys.readouterr().out


def test_a_library_that_does_not_load_is_a_finding(fakes):
    (fakes / "torch.py").write_text("raise ImportError('libtorch.so: cannot open')")
    answer = run_doctor(fakes, "-np", "1", COLUMNS="200")
    assert "does not load: ImportError: libtorch.so: cannot open" in answer.stdout
    assert answer.returncode == 1


def test_a_library_that_crashes_is_a_finding(fakes):
    (fakes / "torch.py").write_text("import os; os.kill(os.getpid(), 11)")
    answer = run_doctor(fakes, "-np", "1", COLUMNS="200")
    assert "does not load: Python died of SIGSEGV" in answer.stdout
    assert answer.returncode == 1


def test_wrong_settings_are_findings(fakes):
    answer = run_doctor(fakes, "--json", HOROVOD_OPT_MODE="nbsc")
    report = json.loads(answer.stdout)
    assert report["settings"] is None
    assert "Did you mean nbcs?" in report["findings"][0]["text"]
    assert answer.returncode == 1


def test_a_foreign_horovod_is_a_finding(fakes):
    (fakes / "horovod" / "__init__.py").write_text("__version__ = '0.28.1'\n")
    answer = run_doctor(fakes, "--json", HOROVOD_OPT_MODE="nbcs")
    assert "not ours but version 0.28.1" in answer.stdout
    assert answer.returncode == 1


def test_an_mpirun_that_does_not_start(fakes):
    write_program(fakes / "bin" / "mpirun", "#!/no/such/program\n")
    answer = run_doctor(fakes, "--json", "-np", "1")
    assert "does not start" in json.loads(answer.stdout)["mpirun_version"]
    assert answer.returncode == 1


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_wrong_number_of_ranks(number, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["doctor", "-np", number])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert f"argument -np: '{number}' is not a whole number of at least 1" in error


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "doctor" in capsys.readouterr().out
