"""Runs PyTorch's own tests of torch.distributed by gloo and by hvdopt, and compares.

    tests/by_hand/pytorch/run
    tests/by_hand/pytorch/run --only as_gloo --tests test_barrier test_all_reduce_sum

The wheel has them: torch.testing._internal.distributed.distributed_test. Exit status 1 if a test
that passes by gloo does not by hvdopt.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

PROGRAM = Path(__file__).with_name("wheel_suite.py")
WAYS = {  # variables of each
    "gloo": {"BACKEND": "gloo"},
    "as_gloo": {"BACKEND": "gloo", "HOROVOD_OPT_AS_GLOO": "1"},
    "hvdopt": {"BACKEND": "hvdopt"},
}
OUTCOMES = ("passed", "failed", "skipped")


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/pytorch/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=WAYS, action="append",
                        help="hvdopt: by its name; as_gloo: in gloo's place; default: all")
    parser.add_argument("--ranks", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST", help="default: all")
    parser.add_argument("--folder", type=Path, default=Path("build/pytorch-tests"),
                        help="for results and output; what it has is not run again (%(default)s)")
    return parser.parse_args(argv)


def read_results(file: Path) -> dict[str, dict]:
    if not file.exists():
        return {}
    return {line["test"]: line for line in map(json.loads, file.read_text().splitlines())}


def run_way(way: str, arguments: argparse.Namespace) -> None:
    results = arguments.folder / f"{way}.jsonl"
    environ = {key: value for key, value in os.environ.items() if "HOROVOD" not in key}
    with results.with_suffix(".txt").open("a") as output:
        subprocess.run(
            [sys.executable, PROGRAM, results, *arguments.tests], stdout=output, stderr=output,
            env={**environ, **WAYS[way], "WORLD_SIZE": str(arguments.ranks),
                 "OMP_NUM_THREADS": "1"}, check=False)


def worse(found: dict[str, dict], by_gloo: dict[str, dict]) -> list[str]:
    """A line for each test that passes by gloo, and neither passes nor is skipped by us."""
    return [f"{name}: {found[name]['why']}" for name, line in by_gloo.items()
            if line["outcome"] == "passed" and found.get(name, {}).get("outcome") == "failed"]


def main() -> int:
    arguments = parse_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| | " + " | ".join(OUTCOMES) + " | passed by gloo, failed here |\n"
          "| --- | --- | --- | --- | --- |", flush=True)
    problems = []
    for way in arguments.only or WAYS:
        if arguments.tests or not (arguments.folder / f"{way}.jsonl").exists():
            run_way(way, arguments)
        found = read_results(arguments.folder / f"{way}.jsonl")
        own = worse(found, read_results(arguments.folder / "gloo.jsonl"))
        counts = Counter(line["outcome"] for line in found.values())
        print(f"| {way} | " + " | ".join(str(counts[kind]) for kind in OUTCOMES)
              + f" | {len(own)} |", flush=True)
        problems += [f"{way}: {line}" for line in own]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
