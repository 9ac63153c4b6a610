"""The setuptools commands that put the patched Horovod into the wheel."""

import json
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


class Build(build):
    """Looks at the environment first, so that a build that cannot succeed starts nothing."""

    def run(self):
        try:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # what an earlier build left behind
            self.distribution.environment = environment.discover(
                supported=self.distribution.extras_require)
            say(self.distribution.environment.summary())
            say("fetching and patching upstream")
            source_tree.prepare(UPSTREAM)
            super().run()
        except BuildError as error:
            say(f"error: {error}")
            sys.exit(1)


class BuildPy(build_py):
    """Adds upstream's Python packages and the start-up hook that guards against another horovod."""

    def run(self):
        if self.editable_mode:
            say("error: the patched horovod is built, so it cannot be installed as editable; run "
                "'make build' after a change, or 'pip install .'")
            sys.exit(1)
        super().run()
        target = Path(self.build_lib)
        shutil.copytree(UPSTREAM / "horovod", target / "horovod", ignore=NATIVE_ONLY)
        shutil.copyfile(ROOT / "horovod_opt.pth", target / "horovod_opt.pth")


class BuildExt(build_ext):
    """Compiles the native libraries and records what was built for `horovod-opt doctor`."""

    def run(self):
        found = self.distribution.environment
        target = Path(self.build_lib)
        native.compile_libraries(found, UPSTREAM, BUILD, target, say)
        (target / "horovod_opt" / "build.json").write_text(json.dumps({
            "frameworks": found.frameworks, "mpicxx": str(found.mpicxx or ""), "gloo": found.gloo,
            "compiler": found.compiler,
            "gpu_operations": found.variables.get("HOROVOD_GPU_OPERATIONS", "")}, indent=2))
        say("built for:")
        say(found.summary())


class PlatformDistribution(Distribution):
    """The wheel holds native libraries, though setuptools compiles none of them itself."""

    def has_ext_modules(self):
        return True


COMMANDS = {"build": Build, "build_py": BuildPy, "build_ext": BuildExt}
