"""Configures and compiles the native libraries with CMake and Ninja, incrementally."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from building import BuildError
from building.environment import Environment

ROOT = Path(__file__).parent.parent
PROGRESS = re.compile(r"^\[(\d+)/(\d+)\]")
ASK_TENSORFLOW = """
import json
import tensorflow as tf
print(json.dumps([tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]))
"""

ASK_PYTORCH = """
import json, sysconfig
import torch
from torch.utils import cpp_extension
includes = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
folder = cpp_extension.TORCH_LIB_PATH
abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
assert torch.distributed.is_available()
print(json.dumps([torch.__version__, [
    *(f"-I{path}" for path in includes), f"-D_GLIBCXX_USE_CXX11_ABI={abi}"],
    [f"-L{folder}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]]))
"""


@dataclass(frozen=True)
class Framework:
    """What is compiled for it, with flags in its own words."""

    version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def find_pytorch(variables: Mapping[str, str]) -> Framework | None:
    """None: there is none with torch.distributed that can be imported, or
    HOROVOD_WITHOUT_PYTORCH=1."""
    if variables.get("HOROVOD_WITHOUT_PYTORCH") == "1":
        return None
    return _ask(ASK_PYTORCH, variables)


def find_tensorflow(variables: Mapping[str, str]) -> Framework | None:
    """None: there is none that can be imported, or HOROVOD_WITHOUT_TENSORFLOW=1."""
    if variables.get("HOROVOD_WITHOUT_TENSORFLOW") == "1":
        return None
    return _ask(ASK_TENSORFLOW, variables)


def _ask(program: str, variables: Mapping[str, str]) -> Framework | None:
    """What the program's last line says. None: it ends with an error."""
    answer = subprocess.run([sys.executable, "-c", program], env=dict(variables), check=False,
                            cwd="/", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if answer.returncode != 0:
        return None
    version, compile_flags, link_flags = json.loads(answer.stdout.splitlines()[-1])
    return Framework(version, tuple(compile_flags), tuple(link_flags))


def compile_libraries(env: Environment, source: Path, build: Path, output: Path, say) -> None:
    """Builds every framework's mpi_lib from `source` and puts the results under `output`."""
    generated = build / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    _write_header(generated / "horovod_opt_abi.h")
    libraries = build / "libraries"
    config = "Debug" if env.variables.get("HOROVOD_DEBUG") == "1" else "RelWithDebInfo"
    _run([_tool("cmake"), "-S", source, "-B", build / "cmake", "-G", "Ninja",
          f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
          f"-DCMAKE_CXX_COMPILER={_compiler_argument(env.compiler, env.variables)}",
          f"-DCMAKE_BUILD_TYPE={config}",
          "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",  # for tests/binding
          f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY_{config.upper()}={libraries}",
          f"-DPYTHON_EXECUTABLE={sys.executable}",
          f"-DHOROVOD_OPT_SOURCE_DIR={ROOT}",
          f"-DHOROVOD_OPT_GENERATED_DIR={generated}",
          f"-DHOROVOD_OPT_WITHOUT_CUDA={'ON' if env.without_cuda else 'OFF'}",
          *_mpi_arguments(env), *_python_arguments(env)], env, say)
    say("compiling (a cold build takes several minutes)")
    jobs = env.variables.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    _run([_tool("cmake"), "--build", build / "cmake", "--parallel", jobs], env, say)
    shutil.copytree(libraries, output, dirs_exist_ok=True)


def compile_reader(compiler: str, variables: Mapping[str, str], build: Path, output: Path) -> None:
    """Builds the input side's libraries, which need no Horovod, and puts them under `output`.

    `compiler` may have arguments, as 'ccache g++'; `variables` are the environment of all tools.
    """
    for target in ("horovod_opt_io", "horovod_opt_overlay"):
        _compile_target(target, "io", "", compiler, variables, build, output)


def compile_kernel(tensorflow: Framework, compiler: str, variables: Mapping[str, str], build: Path,
                   output: Path) -> None:
    """The same of the library's kernel for this TensorFlow, which is found beside the library."""
    _compile_target("horovod_opt_io_tensorflow", "io", f"-{tensorflow.version}", compiler,
                    variables, build, output,
                    f"-DHOROVOD_OPT_TENSORFLOW_VERSION={tensorflow.version}",
                    f"-DHOROVOD_OPT_TENSORFLOW_COMPILE={';'.join(tensorflow.compile_flags)}",
                    f"-DHOROVOD_OPT_TENSORFLOW_LINK={';'.join(tensorflow.link_flags)}")


def compile_backend(pytorch: Framework, compiler: str, variables: Mapping[str, str], build: Path,
                    output: Path) -> None:
    """The same of torch.distributed's backend for this PyTorch."""
    _compile_target("horovod_opt_c10d", "c10d", f"-{pytorch.version}", compiler, variables, build,
                    output,
                    f"-DHOROVOD_OPT_TORCH_VERSION={pytorch.version}",
                    f"-DHOROVOD_OPT_TORCH_COMPILE={';'.join(pytorch.compile_flags)}",
                    f"-DHOROVOD_OPT_TORCH_LINK={';'.join(pytorch.link_flags)}")


def _compile_target(target: str, package: str, version: str, compiler: str,
                    variables: Mapping[str, str], build: Path, output: Path,
                    *arguments: str) -> None:
    folder = build / "io"
    _call([_tool("cmake"), "-S", ROOT, "-B", folder, "-G", "Ninja",
           f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
           f"-DCMAKE_CXX_COMPILER={_compiler_argument(compiler, variables)}",
           f"-DPython3_EXECUTABLE={sys.executable}",
           "-DCMAKE_BUILD_TYPE="
           + ("Debug" if variables.get("HOROVOD_DEBUG") == "1" else "RelWithDebInfo"),
           *arguments], variables)
    _call([_tool("cmake"), "--build", folder, "--target", target], variables)
    built = Path("horovod_opt", package, f"lib{target}{version}.so")
    (output / built).parent.mkdir(parents=True, exist_ok=True)
    put(str(folder / "libraries" / built), str(output / built))


def put(source: str, target: str) -> None:
    """Copies a file in the place of another one; a process that has loaded that keeps it."""
    part = f"{target}.{os.getpid()}"
    shutil.copy2(source, part)
    os.replace(part, target)


def _write_header(path: Path) -> None:
    """The C header of the settings and counters; left alone when nothing changed."""
    text = subprocess.run([sys.executable, "-m", "horovod_opt.native.header"], cwd=ROOT,
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    if not (path.is_file() and path.read_text() == text):
        path.write_text(text)


def _compiler_argument(compiler: str, variables: Mapping[str, str]) -> str:
    """CMake's list of compiler and arguments: CXX may be 'ccache g++'."""
    program, *arguments = compiler.split()
    return ";".join([shutil.which(program, path=variables["PATH"]), *arguments])


def _mpi_arguments(env: Environment) -> list[str]:
    if env.mpicxx is None:
        return []
    mpicc = env.mpicxx.with_name("mpicc")
    return [f"-DMPI_CXX_COMPILER={env.mpicxx}", f"-DMPI_C_COMPILER={mpicc}"]


def _python_arguments(env: Environment) -> list[str]:
    return [f"-DHOROVOD_OPT_PYTHON_INCLUDE={env.python_include}"] if env.python_include else []


def _tool(name: str) -> str:
    """CMake's and Ninja's own binaries: their Python wrappers need the isolated environment."""
    try:
        module = __import__(name)
        folder = Path(getattr(module, "CMAKE_BIN_DIR", None) or module.BIN_DIR)
        if (folder / name).is_file():
            return str(folder / name)
    except (ImportError, AttributeError, TypeError):
        pass
    path = shutil.which(name)
    if path is None:
        raise BuildError(f"{name} not found: pip install {name}")
    return path


def _run(command, env: Environment, say) -> None:
    """Runs a tool, echoing its output and saying how far Ninja is in steps of a tenth."""
    reached = 0
    for line in _output(command, env.variables):
        match = PROGRESS.match(line)
        if match:
            tenth = 10 * int(match[1]) // int(match[2])
            if tenth > reached:
                reached = tenth
                say(f"compiled {match[1]} of {match[2]}")


def _call(command, variables: Mapping[str, str]) -> None:
    """Runs a tool that takes seconds, echoing its output."""
    for _ in _output(command, variables):
        pass


def _output(command, variables: Mapping[str, str]) -> Iterator[str]:
    """The lines of a tool's output, also printed. Raises BuildError if it fails."""
    process = subprocess.Popen([str(part) for part in command], env=dict(variables), text=True,
                               errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        print(line, end="", flush=True)
        yield line
    if process.wait() != 0:
        raise BuildError(f"{Path(str(command[0])).name} failed with exit code "
                         f"{process.returncode}; its messages are above")
