"""Runs one part, in the environment of a build, and prints each row of the table as a line of JSON.
tests/by_hand/gpu/run calls it."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(TESTS / "jobs"), str(TESTS / "binding")]

from against_horovod import HERE as BINDING
from against_horovod import compile_library
from gpu_table import FAILED, Row
from part_setup import NoTime, Setup


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", help="of the part, as the table has it")
    parser.add_argument("module")
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    for name in ("gpus", "cores", "steps", "rounds", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("seconds", "left"):
        parser.add_argument(f"--{name}", type=float, required=True)
    return parser.parse_args()


def show(row: Row) -> None:
    print(json.dumps(asdict(row)), flush=True)


def main() -> None:
    options = vars(parse_arguments())
    number, module = options.pop("number"), options.pop("module")
    until = time.monotonic() + options.pop("left")
    options["folder"].mkdir(parents=True, exist_ok=True)
    if options["gpus"] == 0:
        options["library"] = str(compile_library(
            BINDING / "late_data.cc", options["folder"] / "late_data.so", "torch"))
    try:
        for row in importlib.import_module(module).rows(Setup(until=until, **options)):
            show(row)
    except NoTime:
        show(Row(number, "the rest of this part", "no time was left", FAILED))


if __name__ == "__main__":
    main()
