"""The setuptools commands that put the patched Horovod and the input side's library into the wheel.

With HOROVOD_OPT_WITHOUT_HOROVOD=1 the wheel has no Horovod: nothing is fetched, no framework is
needed, and what is compiled takes seconds; where TensorFlow is, a kernel for it somewhat longer.
"""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from setuptools import Distribution
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from building import BuildError, environment, native, source_tree

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
UPSTREAM = BUILD / "upstream"
NATIVE_ONLY = shutil.ignore_patterns("*.cc", "*.h", "*.cu", "*.txt", "*.fbs", "__pycache__")


def say(text: str) -> None:
    for line in text.splitlines():
        print(f"horovod-opt: {line}", flush=True)


def _has_horovod(host) -> bool:
    return isinstance(host, environment.Environment)


class Build(build):
    """Looks at the environment first, so that a build that cannot succeed starts nothing."""

    def run(self):
        try:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # what an earlier build left behind
            host = self._look_around()
            self.distribution.environment = host
            say(host.summary())
            if _has_horovod(host):
                say("fetching and patching upstream")
                source_tree.prepare(UPSTREAM)
            super().run()
        except BuildError as error:
            say(f"error: {error}")
            sys.exit(1)

    def _look_around(self) -> "environment.Environment | environment.Tools":
        if os.environ.get(environment.WITHOUT_HOROVOD) == "1":
            return environment.discover_tools()
        return environment.discover(supported=self.distribution.extras_require)


class BuildPy(build_py):
    """Adds upstream's Python packages and the start-up hook that guards against another horovod."""

    def run(self):
        if self.editable_mode:
            say("error: the patched horovod is built, so it cannot be installed as editable; run "
                "'make build' after a change, or 'pip install .'")
            sys.exit(1)
        super().run()
        target = Path(self.build_lib)
        if _has_horovod(self.distribution.environment):
            shutil.copytree(UPSTREAM / "horovod", target / "horovod", ignore=NATIVE_ONLY)
        shutil.copyfile(ROOT / "horovod_opt.pth", target / "horovod_opt.pth")


class BuildExt(build_ext):
    """Compiles the native libraries and records what was built for `horovod-opt doctor`."""

    def run(self):
        host = self.distribution.environment
        target = Path(self.build_lib)
        say("compiling the input side's library")
        native.compile_reader(host.compiler, host.variables, BUILD, target)
        _compile_kernel(host, target)
        _compile_backend(host, target)
        built = {"horovod": _has_horovod(host), "compiler": host.compiler,
                 "sources": _hash_of_sources()}
        if _has_horovod(host):
            native.compile_libraries(host, UPSTREAM, BUILD, target, say)
            built.update(frameworks=host.frameworks, mpicxx=str(host.mpicxx or ""),
                         gloo=host.gloo,
                         gpu_operations=host.variables.get("HOROVOD_GPU_OPERATIONS", ""))
        (target / "horovod_opt" / "build.json").write_text(json.dumps(built, indent=2))
        say("built for:")
        say(host.summary())


def _hash_of_sources() -> str:
    """16 hexadecimal digits over all that the native libraries are made of: ranks whose builds
    have others may not understand each other."""
    hash_ = hashlib.sha256()
    for folder in ("horovod_opt/csrc", "patches"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file():
                hash_.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return hash_.hexdigest()[:16]


def _compile_kernel(host, target: Path) -> None:
    """For the TensorFlow that is there. What has none goes on in Python."""
    tensorflow = native.find_tensorflow(host.variables)
    if tensorflow is None:
        say("no TensorFlow, so no kernel: batches for one that comes later will be made in Python")
        return
    say(f"compiling the input side's kernel for TensorFlow {tensorflow.version}")
    try:
        native.compile_kernel(tensorflow, host.compiler, host.variables, BUILD, target)
    except BuildError as error:
        say(f"no kernel: {error}; batches for TensorFlow will be made in Python")


def _compile_backend(host, target: Path) -> None:
    """For the PyTorch that is there."""
    pytorch = native.find_pytorch(host.variables)
    if pytorch is None:
        say("no PyTorch, so no backend of torch.distributed")
        return
    say(f"compiling the backend of torch.distributed for PyTorch {pytorch.version}")
    try:
        native.compile_backend(pytorch, host.compiler, host.variables, BUILD, target)
    except BuildError as error:
        say(f'no backend: {error}; init_process_group("hvdopt") will say so')


class PlatformDistribution(Distribution):
    """The wheel holds native libraries, though setuptools compiles none of them itself."""

    def has_ext_modules(self):
        return True


COMMANDS = {"build": Build, "build_py": BuildPy, "build_ext": BuildExt}
