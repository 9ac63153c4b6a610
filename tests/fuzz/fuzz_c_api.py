"""The C API as horovod_opt calls it: from the bytes, plans with damages and calls in any order.

A wrong answer of the native side may end the process: run it in one of its own. Alone it is a rank
of a job of one, in mode topo:

    python tests/fuzz/fuzz_c_api.py INPUTS
"""

from __future__ import annotations

import json
import os
import random
import sys

os.environ["HOROVOD_OPT_MODE"] = "topo"

import horovod.torch as hvd
import torch
from draw import Draw
from graph_input import plan_of
from horovod.torch.mpi_ops import _basics

import horovod_opt
from graph_analysis import Plan, PlanError
from graph_analysis.bucket_sizes import Limits
from horovod_opt.native.plan_text import native_text
from horovod_opt.planning.planner import Planner

LIBRARY = _basics.MPI_LIB_CTYPES
KEYS = (0, 1, 5, -1, 2**31, 2**63 - 1, -2**63)
FIELDS = ("", "-", "0", "-1", "7", "1,0", "0,,1", "9" * 30, "1e400", "nan", "x", "\u2028", "\r")

hvd.init()
planner = Planner(LIBRARY)


def target(data: bytes) -> None:
    """Each call returns or raises; a plan that is accepted is reported as it was given."""
    draw = Draw(data)
    for _ in range(1 + draw.below(4)):
        draw.choice((_add, _add, _add, _reject, _use_key, _leave_out, _gathered))(draw)
    horovod_opt.plans()
    assert horovod_opt.stats().size == 1


def _add(draw: Draw) -> None:
    try:
        plan = Plan.from_json(json.dumps(plan_of(draw)))
    except PlanError:
        return
    text = native_text(plan, Limits.same(draw.choice((0, 8, 2**40))))
    if not draw.one_in(2):
        planner.add(text)
        (plan_status,) = [status for status in horovod_opt.plans() if status.hash == plan.hash]
        assert sum(map(len, plan_status.buckets)) == len(plan.slots)
        return
    try:
        planner.add(_damaged(draw, text))
    except RuntimeError as error:
        assert "does not understand a plan" in str(error)


def _damaged(draw: Draw, text: str) -> str:
    lines = [line.split("\t") for line in text.split("\n")]
    for _ in range(1 + draw.below(3)):
        fields = draw.choice(lines)
        if draw.one_in(8):
            lines.append(list(fields))
        elif draw.one_in(8):
            fields.append(draw.choice(FIELDS))
        else:
            fields[draw.below(len(fields))] = draw.choice(FIELDS)
    return "\n".join("\t".join(fields) for fields in lines)


def _reject(draw: Draw) -> None:
    hashes = ["", "x", *(status.hash for status in horovod_opt.plans()[-3:])]
    planner.reject(draw.choice(hashes), draw.choice(FIELDS))


def _use_key(draw: Draw) -> None:
    handle = hvd.allreduce_async_(torch.ones(3), op=hvd.Sum, opt_key=draw.choice(KEYS),
                                  opt_step=draw.below(3))
    assert hvd.synchronize(handle).tolist() == [1, 1, 1]


def _leave_out(draw: Draw) -> None:
    planner.leave_out(draw.choice(KEYS), draw.choice(FIELDS))


def _gathered(draw: Draw) -> None:
    assert LIBRARY.horovod_opt_gathered_stats(draw.choice((-1, 0, 1, 2**31 - 1)), None) == -1


def main() -> None:
    """So many inputs, always the same."""
    numbers, inputs = random.Random(1), int(sys.argv[1])
    for _ in range(inputs):
        target(numbers.randbytes(numbers.choice((10, 100))))
    print(f"{inputs} inputs, {len(horovod_opt.plans())} plans", flush=True)


if __name__ == "__main__":
    main()
