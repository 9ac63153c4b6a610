"""Trains Keras' own examples on two nodes of two ranks, and compares with one process.

    git clone https://github.com/keras-team/keras && git -C keras checkout COMMIT
    tests/by_hand/keras/run --checkout keras
    tests/by_hand/keras/run --checkout keras --only mnist_convnet vae --columns off topo

Needs root: nodes are network namespaces of this machine. Columns: MultiWorkerMirroredStrategy
(`mirrored`), and Horovod in modes; in `off` idle processes of Open MPI yield, in `spinning` not.
An example that draws no random numbers has the losses of one process within 1e-4, another one is
within the range of five seeds of it. Exit status 1 if one is not, or fails in a mode; 2 if nothing
can be run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import tensorflow as tf

from examples import EXAMPLES, FOLDER, Example
from horovod_lab.measuring import launch
from horovod_lab.measuring.virtual_hosts import NoHosts, VirtualHosts

ROOT = Path(__file__).resolve().parents[3]
RANK = Path(__file__).with_name("rank.py")
# By column.
WAYS = {
    "one": {}, "mirrored": {}, "spinning": {"HOROVOD_OPT_MODE": "off"},
    "off": {"HOROVOD_OPT_MODE": "off", "OMPI_MCA_mpi_yield_when_idle": "1"},
    "gs": {"HOROVOD_OPT_MODE": "gs"}, "topo": {"HOROVOD_OPT_MODE": "topo"}}
RANKS, TOLERANCE = 4, 1e-4
SEEDS = (1, 2, 3, 4, 5)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/keras/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="of Keras' repository")
    parser.add_argument("--only", nargs="+", choices=[example.name for example in EXAMPLES],
                        metavar="EXAMPLE", help="default: all in examples.py")
    parser.add_argument("--columns", nargs="+", choices=list(WAYS)[1:],
                        default=["mirrored", "off", "topo"], help="%(default)s")
    parser.add_argument("--seconds", type=float, default=60, help="of a job (%(default)s)")
    parser.add_argument("--json", type=Path, help="of results: goes on with it")
    return parser.parse_args(argv)


class Examples:
    """Runs them, a job at a time."""

    def __init__(self, arguments: argparse.Namespace, hosts: VirtualHosts, folder: Path):
        self.checkout, self.seconds = arguments.checkout.resolve(), arguments.seconds
        self.hosts, self.result = hosts, folder / "result.json"

    def _job(self, example: Example, way: str, seed: int) -> str:
        return json.dumps({
            "way": way, "example": str(self.checkout / FOLDER / example.path),
            "constants": dict(example.constants), "fits": example.fits, "epochs": example.epochs,
            "seed": seed, "result": str(self.result)})

    def train(self, example: Example, column: str, seed: int = SEEDS[0]) -> dict:
        """What rank 0 has written, or {"error": why there is nothing}."""
        self.result.unlink(missing_ok=True)
        environ = {name: value for name, value in os.environ.items() if "HOROVOD" not in name
                   and name != "PYTHONPATH"}
        environ.update(TF_CPP_MIN_LOG_LEVEL="3",
                       PATH=os.pathsep.join((str(ROOT / ".venv/bin"), self.hosts.path)))
        environ.update(WAYS[column])
        way = column if column in ("one", "mirrored") else "horovod"
        rank = [sys.executable, str(RANK), self._job(example, way, seed)]
        if way != "one":
            environ.update(TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="1")
            horovodrun = [sys.executable, "-m", "horovod.runner.launch", "-np", str(RANKS), "-H",
                          f"h1:{RANKS // 2},h2:{RANKS // 2}", "--disable-cache"]
            if way == "mirrored":  # it only starts the processes
                horovodrun.append("--gloo")
            rank = [*horovodrun, *rank]
        try:
            self.hosts.on_first(launch.execute, [rank], environ, self.seconds)
        except launch.JobFailed as failure:
            if not self.result.exists():
                return {"error": str(failure)}
        finally:
            self.hosts.stop_jobs()
        return json.loads(self.result.read_text())


def difference(losses: list[float], others: list[float]) -> float:
    """The largest of two trainings' epochs, relative to the second's."""
    if len(losses) != len(others):
        return float("inf")
    return max(abs(loss - other) / max(abs(other), 1e-12) for loss, other in zip(losses, others))


def judge(example: Example, losses: list[float], ones: list[list[float]]) -> tuple[str, bool]:
    """`ones`: one process' by seed."""
    if not example.is_random:
        largest = difference(losses, ones[0])
        return f"{largest:.0e}", largest <= TOLERANCE
    ends = [one[-1] for one in ones]
    return (f"{losses[-1]:.4g} of {min(ends):.4g}-{max(ends):.4g}",
            min(ends) <= losses[-1] <= max(ends))


def run(arguments: argparse.Namespace, examples: Examples) -> bool:
    """Prints a row of each; whether all is as it should be."""
    found = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() \
        else {}
    good = True
    for example in EXAMPLES:
        if arguments.only and example.name not in arguments.only:
            continue
        jobs = found.setdefault(example.name, {})
        seeds = SEEDS if example.is_random else SEEDS[:1]
        for column, seed in [*(("one", seed) for seed in seeds),
                             *((column, SEEDS[0]) for column in arguments.columns)]:
            key = f"{column} {seed}"
            if key in jobs:
                continue
            jobs[key] = examples.train(example, column, seed)
            if "error" in jobs[key]:
                print(f"{example.name}, {column}: {jobs[key]['error']}", file=sys.stderr,
                      flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=1))
        row, is_good = describe(example, jobs, arguments.columns, seeds)
        print(row, flush=True)
        good = good and is_good
    return good


def describe(example: Example, jobs: dict, columns: list[str], seeds: tuple) -> tuple[str, bool]:
    ones = [jobs[f"one {seed}"] for seed in seeds]
    wrong = [one["error"] for one in ones if "error" in one]
    if wrong:
        return f"| {example.name} | {example.kind} | fails in one process |", False
    cells, good = [example.name, example.kind, f"{ones[0]['rate']:.0f}"], True
    for column in columns:
        job = jobs[f"{column} {SEEDS[0]}"]
        if "error" in job:
            cells += ["fails", ""]
            good = good and column == "mirrored"
            continue
        text, is_good = judge(example, job["losses"], [one["losses"] for one in ones])
        cells += [f"{job['rate']:.0f}", text + ("" if is_good else " **no**")]
        if column == "topo":
            cells.append(str(job["rounds"]))
        good = good and (is_good or column == "mirrored")
    return f"| {' | '.join(cells)} |", good


def main() -> int:
    arguments = parse_arguments()
    commit = subprocess.run(["git", "-C", arguments.checkout, "rev-parse", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    print(f"Keras {keras.__version__}, TensorFlow {tf.__version__}, examples of {commit or '?'}\n",
          flush=True)
    try:
        with launch.end_as_by_ctrl_c(), tempfile.TemporaryDirectory() as keys, \
                tempfile.TemporaryDirectory() as folder, VirtualHosts(Path(keys)) as hosts:
            return 0 if run(arguments, Examples(arguments, hosts, Path(folder))) else 1
    except (NoHosts, OSError) as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
