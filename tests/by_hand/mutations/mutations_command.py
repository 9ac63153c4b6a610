"""Removes each rule of mode topo in a copy of the sources and explores every order of events.

    tests/by_hand/mutations/run                    # all: half an hour
    tests/by_hand/mutations/run defer begun        # these

Prints a table: how many states were known when a rule was broken, in which job, and how. Exit
status 1 if the product as it is breaks a rule, or does without one. Needs cmake, ninja.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rule_mutations import RULES, Mutation

ROOT = Path(__file__).resolve().parents[3]
FOUND = re.compile(r"^(\w+): (\d+) states, .*\nviolation: (.*)\nafter:\n((?:  .*\n)*)", re.M)
COUNTED = re.compile(r"^(\w+): (\d+) states, (\d+) events", re.M)


@dataclass(frozen=True)
class Counterexample:
    states: int
    violation: str
    trace: str


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/by_hand/mutations/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutations",
                        help="folder for the copy, its build and what went wrong (%(default)s)")
    parser.add_argument("--states", type=int, default=200_000,
                        help="of three ranks, for each job at most (%(default)s)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("names", nargs="*", help="of rules: " + ", ".join(m.name for m in RULES))
    return parser.parse_args(argv)


def copy_sources(to: Path) -> None:
    """What the native tests are built from, as it stands. Equal files keep their times."""
    parts = ("CMakeLists.txt", "building", "horovod_opt", "graph_analysis", "tests/native")
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                             *parts],
                            cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in listed.splitlines():
        source, copy = ROOT / name, to / name
        if not source.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)


def configure(source: Path, build: Path, tests: str) -> None:
    finder = ROOT / "tests/native/googletest.py"
    where = subprocess.run([sys.executable, str(finder), str(build / "googletest")],
                           check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    folders = {"tests/native/exploration", f"tests/native/{tests}"}
    files = sorted(str(file.relative_to(ROOT)) for folder in folders
                   for file in (ROOT / folder).glob("*.cc")
                   if tests in str(file) or not file.name.endswith("_test.cc"))
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja",
                    "-DHOROVOD_OPT_NATIVE_TESTS=ON", f"-DHOROVOD_OPT_GOOGLETEST={where}",
                    f"-DHOROVOD_OPT_TESTS={';'.join(files)}",
                    f"-DPython3_EXECUTABLE={sys.executable}"],
                   check=True, stdout=subprocess.DEVNULL)


def mutated(text: str, mutation: Mutation) -> str:
    """The file without the rule. ValueError if its line is not there once."""
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.name}: {mutation.file} has not once, but "
                         f"{text.count(mutation.old)} times:\n{mutation.old}")
    return text.replace(mutation.old, mutation.new)


def explore(build: Path, job: str, ranks: int, options: argparse.Namespace) -> str:
    """What the tests of a job print; builds them before."""
    subprocess.run(["cmake", "--build", build, "--target", "native_tests", "--parallel",
                    str(options.jobs)], check=True, stdout=subprocess.DEVNULL)
    environment = {**os.environ, "HOROVOD_OPT_EXPLORED_RANKS": str(ranks),
                   "HOROVOD_OPT_EXPLORED_STATES": str(options.states),
                   "HOROVOD_OPT_EXPLORED_SEARCHES": str(options.states // 600),
                   "HOROVOD_OPT_EXPLORED_WALKS": str(options.states // 10)}
    run = subprocess.run([build / "tests/native/native_tests", f"--gtest_filter=*/{job}"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=environment)
    return run.stdout


def counterexample(output: str) -> Counterexample | None:
    found = FOUND.search(output)
    return Counterexample(int(found[2]), found[3], found[4]) if found else None


def without(mutation: Mutation, options: argparse.Namespace) -> tuple[int, Counterexample | None]:
    """The number of ranks, and what they show."""
    file = options.output / "source" / mutation.file
    original = file.read_text()
    file.write_text(mutated(original, mutation))
    ranks, example = 2, None
    try:
        for ranks in (2, 3) if mutation.tests == "exploration" else (2,):
            output = explore(options.output / mutation.tests, mutation.job, ranks, options)
            (options.output / f"{mutation.name}-{ranks}.txt").write_text(output)
            if example := counterexample(output):
                break
    finally:
        file.write_text(original)
    return ranks, example


def main(argv: list[str] | None = None) -> int:
    options = parse_arguments(argv)
    options.output = options.output.resolve()
    copy_sources(options.output / "source")
    chosen = [rule for rule in RULES if not options.names or rule.name in options.names]
    for tests in sorted({rule.tests for rule in chosen}):
        configure(options.output / "source", options.output / tests, tests)
        output = explore(options.output / tests, "*", 2, options)
        if counterexample(output) or not COUNTED.search(output):
            print(output)
            return 1
        print(f"As it is, {tests}: " + ", ".join(f"{job} {states} states, {events} events"
              for job, states, events in COUNTED.findall(output)) + "\n", flush=True)
    print("| without the rule | in | job | states | what goes wrong |\n"
          "| --- | --- | --- | --- | --- |", flush=True)
    all_found = True
    for mutation in chosen:
        ranks, example = without(mutation, options)
        all_found = all_found and example is not None
        what = f"{example.states} | {example.violation}" if example else "| nothing was found"
        print(f"| {mutation.rule} | `{Path(mutation.file).name}` | "
              f"{mutation.job}, {ranks} ranks | {what} |", flush=True)
    return 0 if all_found else 1
