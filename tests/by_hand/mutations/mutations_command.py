"""Removes each rule of mode topo in a copy of the sources and explores every order of events.

    tests/by_hand/mutations/run                    # all: about an hour
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
TESTS = "tests/native/exploration"
FOUND = re.compile(r"^(\w+): (\d+) states, .*\nviolation: (.*)\nafter:\n((?:  .*\n)*)", re.M)
COUNTED = re.compile(r"^(\w+): (\d+) states, (\d+) events", re.M)


@dataclass(frozen=True)
class Counterexample:
    job: str
    ranks: int
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
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *parts],
                            cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in listed.splitlines():
        source, copy = ROOT / name, to / name
        if not source.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)


def configure(source: Path, build: Path) -> None:
    googletest = [sys.executable, str(ROOT / "tests/native/googletest.py"), str(build / "googletest")]
    where = subprocess.run(googletest, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / TESTS).rglob("*.cc"))
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


def explore(build: Path, ranks: int, states: int, jobs: int) -> str:
    """What the tests print; builds them before."""
    subprocess.run(["cmake", "--build", build, "--target", "native_tests", "--parallel", str(jobs)],
                   check=True, stdout=subprocess.DEVNULL)
    environment = {**os.environ, "HOROVOD_OPT_EXPLORED_RANKS": str(ranks)}
    if ranks > 2:
        environment["HOROVOD_OPT_EXPLORED_STATES"] = str(states)
    run = subprocess.run([build / "tests/native/native_tests", "--gtest_filter=*Exploration*"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=environment)
    return run.stdout


def counterexample(output: str, ranks: int) -> Counterexample | None:
    """The one that takes the fewest states."""
    found = [Counterexample(job, ranks, int(states), violation, trace)
             for job, states, violation, trace in FOUND.findall(output)]
    return min(found, key=lambda example: example.states, default=None)


def without(mutation: Mutation, source: Path, options: argparse.Namespace) -> Counterexample | None:
    file = source / mutation.file
    original = file.read_text()
    file.write_text(mutated(original, mutation))
    try:
        for ranks in (2, 3):
            output = explore(options.output / "build", ranks, options.states, options.jobs)
            (options.output / f"{mutation.name}-{ranks}.txt").write_text(output)
            if example := counterexample(output, ranks):
                return example
    finally:
        file.write_text(original)
    return None


def main(argv: list[str] | None = None) -> int:
    options = parse_arguments(argv)
    options.output = options.output.resolve()
    source, build = options.output / "source", options.output / "build"
    copy_sources(source)
    configure(source, build)
    chosen = [rule for rule in RULES if not options.names or rule.name in options.names]
    output = explore(build, 2, options.states, options.jobs)
    if counterexample(output, 2) or not COUNTED.search(output):
        print(output)
        return 1
    states, events = (sum(int(row[i]) for row in COUNTED.findall(output)) for i in (1, 2))
    print(f"As it is: {states} states, {events} events, no rule is broken.\n", flush=True)
    print("| without the rule | in | job | states | what goes wrong |\n"
          "| --- | --- | --- | --- | --- |", flush=True)
    all_found = True
    for mutation in chosen:
        example = without(mutation, source, options)
        all_found = all_found and example is not None
        where = f"| {mutation.rule} | `{Path(mutation.file).name}` |"
        if example is None:
            print(f"{where} | | nothing was found |", flush=True)
        else:
            print(f"{where} {example.job}, {example.ranks} ranks | {example.states} | "
                  f"{example.violation} |", flush=True)
    return 0 if all_found else 1
