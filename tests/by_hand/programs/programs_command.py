"""Trains programs that others have written for Horovod, in modes, and compares with `off`.

    tests/by_hand/programs/run
    tests/by_hand/programs/run --only deepmd_kit pyro_ppl --modes gs topo --steps 60

Each is one job of 2 ranks under horovodrun. Losses of all steps, and all bits of the weights where
it has them at hand, must be those of `off`. The last column is how many rounds of negotiation
`topo` asked for in steady state. Exit status 1 if a program fails, or has others than in `off`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from trainings import TRAININGS

from horovod_lab.measuring import launch

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("trainings.py")
MODES = ("gs", "nbcs", "topo")
RANKS = 2
SECONDS = 600  # only a hang takes so long


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/programs/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TRAININGS, metavar="PROGRAM",
                        help=f"some of {', '.join(TRAININGS)}")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["gs", "topo"],
                        help="beside off (%(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="%(default)s")
    return parser.parse_args(argv)


def train(name: str, mode: str, steps: int) -> dict:
    """What its rank 0 says. Raises launch.JobFailed."""
    bin_folder = ROOT / ".venv/bin"
    environ = {key: value for key, value in os.environ.items() if "HOROVOD" not in key}
    environ.pop("PYTHONPATH", None)
    environ.update(HOROVOD_OPT_MODE=mode, OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3",
                   OMPI_MCA_mpi_yield_when_idle="1",
                   PATH=os.pathsep.join((str(bin_folder), environ.get("PATH", os.defpath))))
    with tempfile.TemporaryDirectory(prefix="horovod-programs-") as folder:
        launch.execute([[str(bin_folder / "horovodrun"), "-np", str(RANKS), sys.executable,
                         str(PROGRAM), name, folder, str(steps)]], environ, SECONDS)
        return json.loads((Path(folder) / "result.json").read_text())


def compare(name: str, modes: list[str], steps: int) -> tuple[list[str], bool]:
    """A row of the table, and whether all is as it should be."""
    package = name.replace("_", "-")
    found = {}
    for mode in ("off", *modes):
        try:
            found[mode] = train(name, mode, steps)
        except launch.JobFailed as failure:
            print(f"{name}, {mode}: {failure}", file=sys.stderr, flush=True)
            return [package, version(package), f"fails in {mode}"], False
    base = found["off"]
    same = all(one["losses"] == base["losses"] and one["weights"] == base["weights"]
               for one in found.values())
    rounds = found["topo"]["rounds"] if "topo" in found else ""
    what = "losses and weights" if base["weights"] else "losses"
    return [package, version(package), f"{base['losses'][0]:.4g}, {base['losses'][-1]:.4g}",
            f"{what} {'the same' if same else '**others**'}",
            *(f"{1000 * one['step']:.1f}" for one in found.values()), str(rounds)], same


def main() -> int:
    arguments = parse_arguments()
    modes = arguments.modes
    head = ["package", "version", "first and last loss", "beside `off`",
            *(f"`{mode}`, ms a step" for mode in ("off", *modes)), "rounds in steady state"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    all_good = True
    for name in arguments.only or TRAININGS:
        row, good = compare(name, modes, arguments.steps)
        print(f"| {' | '.join(row)} |", flush=True)
        all_good = all_good and good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
