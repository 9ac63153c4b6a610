"""Runs all tests several times, in random order, beside processes that keep the cores busy.

    tests/by_hand/repeat/run
    tests/by_hand/repeat/run --rounds 1 --busy 4 tests/jobs

A part is a folder of tests. What has run of the same commit, with the same seed and number of busy
processes, does not run again: an interrupted command goes on. Exit status 1 if a part has failed, 2
if there is nothing to run, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUSY = "while True: pass"
NO_TESTS = 5  # pytest's exit status: all are by hand, or of other marks


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/by_hand/repeat/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of all parts (%(default)s)")
    parser.add_argument("--busy", type=int, default=2, help="busy processes (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of pytest (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (%(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "repeat",
                        help="folder for results and what pytest printed (%(default)s)")
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "tests"],
                        help="folders (tests)")
    return parser.parse_args(argv)


def parts_of(paths: list[Path]) -> list[Path]:
    """The folders that have tests themselves, but those by hand."""
    files = (file for path in paths for file in path.resolve().rglob("test_*.py"))
    return sorted({file.parent for file in files if "by_hand" not in file.parts})


@contextmanager
def busy(number: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Results:
    """A line for each part of a round that has run."""

    def __init__(self, file: Path):
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self._codes = {tuple(key): code for key, code in map(json.loads, lines)}

    def has(self, *key: object) -> bool:
        return key in self._codes

    def add(self, code: int, *key: object) -> None:
        self._codes[key] = code
        with self._file.open("a") as file:
            file.write(json.dumps([key, code]) + "\n")

    def failed(self) -> list[tuple]:
        return [key for key, code in self._codes.items() if code not in (0, NO_TESTS)]


def commit() -> str:
    """Of the tests, and whether files differ from it."""
    return subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT,
                          check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(argv: list[str] | None = None) -> int:
    options = parse_arguments(argv)
    parts = parts_of(options.paths)
    if not parts:
        print(f"no tests in {', '.join(map(str, options.paths))}", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    results = Results(options.output / f"{commit()}.jsonl")
    todo = [(seed, part) for seed in range(options.seed, options.seed + options.rounds)
            for part in random.Random(seed).sample(parts, len(parts))]
    try:
        with busy(options.busy):
            for number, (seed, part) in enumerate(todo, 1):
                name = str(part.relative_to(ROOT))
                key = (name, seed, options.busy)
                if not results.has(*key):
                    start = time.monotonic()
                    log = options.output / f"{name.replace('/', '-')}-{seed}.log"
                    code = run_part(part, seed, options.workers, log)
                    results.add(code, *key)
                    end = "passed" if code in (0, NO_TESTS) else f"FAILED, see {log}"
                    print(f"{number} of {len(todo)}: {name}, seed {seed}: {end}   "
                          f"{time.monotonic() - start:.0f} s", flush=True)
    except KeyboardInterrupt:
        return 130
    for name, seed, _ in results.failed():
        print(f"failed: {name}, seed {seed}")
    return bool(results.failed())


def run_part(part: Path, seed: int, workers: int, log: Path) -> int:
    """Only its own tests, not those of folders in it."""
    files = sorted(map(str, part.glob("test_*.py")))
    with log.open("w") as file:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadfile",
             "--no-loadscope-reorder", "--shuffle", str(seed), *files],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT).returncode
