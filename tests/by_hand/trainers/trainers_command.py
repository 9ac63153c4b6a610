"""Trains with Lightning, Accelerate and transformers' Trainer, by gloo and by hvdopt, and compares.

    tests/by_hand/trainers/run
    tests/by_hand/trainers/run --only accelerate --steps 40

Each training runs from its start and again from the checkpoint of its half, with gradient
accumulation, clipping and bf16, in 2 ranks of torchrun: with HOROVOD_OPT_AS_GLOO=1, and without. Of
2 ranks all weights must be the same bits. Exit status 1 if they are not, or a training fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from trainings import TRAININGS

PROGRAM = Path(__file__).with_name("trainings.py")
RANKS = 2
SECONDS = 900  # only a hang takes so long
WAYS = {"gloo": {}, "hvdopt": {"HOROVOD_OPT_AS_GLOO": "1"}}


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/trainers/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TRAININGS, action="append", help="default: all")
    parser.add_argument("--steps", type=int, default=20, help="of the optimizer (%(default)s)")
    return parser.parse_args(argv)


def train(name: str, folder: Path, steps: int, settings: dict[str, str]) -> dict:
    """What rank 0 says at the end.

    Raises:
        SystemExit: the training failed; with its output.
    """
    environ = {key: value for key, value in os.environ.items() if "HOROVOD" not in key}
    job = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}",
         PROGRAM, name, folder, str(steps)],
        env={**environ, **settings, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    results = [line for line in job.stdout.splitlines() if line.startswith('{"weights"')]
    if job.returncode or not results:
        raise SystemExit(f"{name} fails with {settings or 'gloo'}:\n{job.stdout}")
    return json.loads(results[-1])


def compare(name: str, steps: int) -> tuple[list[str], bool]:
    """A row of the table, and whether all is as it should be."""
    found = {}
    for way, settings in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[way] = [train(name, Path(folder), steps, settings) for _ in ("whole", "resumed")]
    same = [own["weights"] == other["weights"] for own, other in zip(*found.values())]
    calls = [sum(counts) for counts in zip(*(both for run in found["hvdopt"]
                                             for both in run["calls"].values()))]
    good = all(same) and all(run["finite"] for runs in found.values() for run in runs)
    good = good and calls[0] > 0 and not any(run["calls"] for run in found["gloo"])
    is_resumed = found["gloo"][0]["weights"] == found["gloo"][1]["weights"]
    return [f"{name} {version(name)}", *("the same bits" if one else "OTHERS" for one in same),
            "as the whole" if is_resumed else "otherwise than the whole, with both",
            str(calls[0]), str(calls[1])], good


def main() -> int:
    arguments = parse_arguments()
    print(f"| PyTorch {version('torch')} | weights | after a resume | which ends | calls by hvdopt "
          "| by gloo |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    all_good = True
    for name in arguments.only or TRAININGS:
        row, good = compare(name, arguments.steps)
        print(f"| {' | '.join(row)} |", flush=True)
        all_good = all_good and good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
