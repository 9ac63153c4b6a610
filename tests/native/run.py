"""Builds and runs the native tests: plain, under ThreadSanitizer, under AddressSanitizer + UBSan.

    python3 tests/native/run.py [--build-dir DIR] [--jobs N] [--once] [plain] [thread] [address]

With --once `thread` has the files in which something may start a thread, `address` the others: each
test is compiled and run once, under the sanitizer that can find more in it.

Needs cmake 3.21 or later on PATH or beside this Python; ninja is used if it is there. Exit status
0 only if every test of every build passed.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import googletest

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = "tests/native"
THREADS = re.compile(r"std::(thread|async)|pthread_create")
OWN_HEADERS = re.compile(rf'#include "((?:{TESTS}|horovod_opt/csrc)/[^"]+)"')
# Its thread ends before anything else goes on.
ONE_AT_A_TIME = "tests/native/exploration/group_presence.h"
SANITIZERS = {"plain": "", "thread": "thread", "address": "address"}


class Failed(Exception):
    """A step failed; the text says which and what it printed."""


@dataclass
class Summary:
    """What ctest reported for one build."""

    tests: int
    failed: int
    skipped: dict[str, str]  # why, by test


def tool(name: str) -> str | None:
    """Finds a command on PATH or beside this Python, where pip puts it."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))


def call(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command and keeps everything that it prints in `stdout`."""
    return subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def step(what: str, command: list[str]) -> None:
    run = call(command)
    if run.returncode != 0:
        raise Failed(f"{what} failed ({' '.join(command)}):\n{run.stdout}")


@functools.cache
def has_threads(file: str) -> bool:
    """Whether it, or a header of ours that it includes, may start one; `file` from the root."""
    text = (REPOSITORY / file).read_text() if file != ONE_AT_A_TIME else ""
    return bool(THREADS.search(text)) or any(map(has_threads, OWN_HEADERS.findall(text)))


def files_of(sanitizer: str) -> list[str]:
    """What this build has with --once, from the root of the repository."""
    files = (str(file.relative_to(REPOSITORY)) for file in (REPOSITORY / TESTS).rglob("*.cc"))
    return sorted(file for file in files if has_threads(file) == (sanitizer == "thread"))


def configure(cmake: str, build: Path, sanitizer: str, source: Path, files: list[str]) -> None:
    command = [cmake, "-S", str(REPOSITORY), "-B", str(build), "-DHOROVOD_OPT_NATIVE_TESTS=ON"]
    command += [f"-DHOROVOD_OPT_SANITIZER={sanitizer}", f"-DHOROVOD_OPT_GOOGLETEST={source}"]
    command += [f"-DHOROVOD_OPT_TESTS={';'.join(files)}", f"-DPython3_EXECUTABLE={sys.executable}"]
    ninja = tool("ninja")
    if ninja is not None and not (build / "Makefile").exists():
        command += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    step("configuring", command)


def launcher(build: Path) -> list[str]:
    """What to put in front of a command so that its sanitized children start at all.

    Before GCC 14, ThreadSanitizer ends at once where the kernel randomizes addresses by more than
    28 bits (vm.mmap_rnd_bits, 32 on recent kernels): it then runs without randomization.
    """
    start = [str(build / "tests" / "native" / "native_tests"), "--gtest_list_tests"]
    for prefix in ([], ["setarch", "-R"]):
        run = call(prefix + start)
        if run.returncode == 0:
            return prefix
    raise Failed(f"the tests do not start, not even with setarch -R:\n{run.stdout}")


def test(ctest: str, build: Path) -> tuple[Summary, str]:
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = launcher(build) + [ctest, "--test-dir", str(build), "--output-on-failure"]
    command += ["--output-junit", str(report)]
    run = call(command)
    if not report.exists():
        raise Failed(f"ctest failed:\n{run.stdout}")
    suite = ElementTree.parse(report).getroot()
    tests, failed = (int(suite.get(key, 0)) for key in ("tests", "failures"))
    if tests == 0 or (run.returncode != 0 and failed == 0):
        raise Failed(f"ctest failed:\n{run.stdout}")
    skipped = {case.get("name", ""): skip_reason(case.findtext("system-out") or "")
               for case in suite.iter("testcase") if case.find("skipped") is not None}
    return Summary(tests, failed, skipped), run.stdout


def skip_reason(output: str) -> str:
    """GoogleTest prints `file:line: Skipped`, and below it the reason."""
    _, _, after = output.partition(": Skipped\n")
    return after.partition("\n")[0] or "no reason given"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="*", metavar="BUILD", help=", ".join(SANITIZERS))
    parser.add_argument("--build-dir", type=Path, default=REPOSITORY / "build" / "native")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--once", action="store_true", help="each test under one sanitizer")
    options = parser.parse_args(arguments)
    for name in options.builds:
        if name not in SANITIZERS:
            parser.error(f"no build {name!r}, choose from {', '.join(SANITIZERS)}")
        if options.once and not SANITIZERS[name]:
            parser.error(f"--once is of sanitizers, {name} has none")
    builds = options.builds or [name for name in SANITIZERS if SANITIZERS[name] or not options.once]
    cmake, ctest = tool("cmake"), tool("ctest")
    if cmake is None or ctest is None:
        print("cmake and ctest are needed: pip install cmake ninja", file=sys.stderr)
        return 1
    directory = options.build_dir.resolve()
    try:
        source = googletest.source(directory / "googletest")
    except googletest.NoGoogleTest as error:
        print(error, file=sys.stderr)
        return 1

    all_passed = True
    for name in builds:
        build = directory / name
        start = time.monotonic()
        try:
            files = files_of(SANITIZERS[name]) if options.once else []
            configure(cmake, build, SANITIZERS[name], source, files)
            step("building", [cmake, "--build", str(build), "--parallel", str(options.jobs)])
            summary, output = test(ctest, build)
        except Failed as error:
            print(f"native {name:8} {error}", flush=True)
            all_passed = False
            continue
        if summary.failed > 0:
            print(output)
            all_passed = False
        for test_name, reason in summary.skipped.items():
            print(f"native {name:8} skipped {test_name}: {reason}")
        passed = summary.tests - summary.failed - len(summary.skipped)
        seconds = time.monotonic() - start
        print(
            f"native {name:8} {passed} passed, {summary.failed} failed, "
            f"{len(summary.skipped)} skipped"
            f"   {seconds:.1f} s",
            flush=True,
        )
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
