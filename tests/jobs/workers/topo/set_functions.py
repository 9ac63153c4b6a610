"""Process sets in a graph of TensorFlow: a plan for each set, though they depend on each other.

Reports what was wrong (nothing), how many rounds of negotiation the last steps asked for, and the
plans.
"""

from __future__ import annotations

import faulthandler

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, meet, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

import horovod_opt

STEPS = 30
LEARNED = 20  # in any step after it, everything is planned

faulthandler.dump_traceback_later(150)
tf.config.threading.set_intra_op_parallelism_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "topo", HOROVOD_OPT_VERIFY="1", HOROVOD_DYNAMIC_PROCESS_SETS="1"):
    everyone = list(range(hvd.size()))
    some = everyone[:-1]
    process_set = hvd.add_process_set(some)

    def reduced(x: tf.Tensor, name: str, ranks: list[int]) -> tf.Tensor:
        options = {} if ranks == everyone else {"process_set": process_set}
        return hvd.allreduce(x, op=hvd.Sum, name=name, **options)

    def total(values: list[float], ranks: list[int]) -> float:
        return sum(values[rank] for rank in ranks)

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        """The set reduces what all ranks have, and all ranks what the set has."""
        first = reduced(x, "first", everyone)
        if RANK not in some:
            return [first, reduced(x + 0.0 * first, "last", everyone)]
        left, right = reduced(first + x, "left", some), reduced(x, "right", some)
        gathered = hvd.allgather(x, name="gathered", process_set=process_set)
        return [first, reduced(left + right, "last", everyone), left, right, gathered]

    problems, before = [], 0
    for number in range(STEPS):
        if number == LEARNED:
            # Whatever a rank has asked for is done in these rounds, or leads to one of the next.
            for turn in range(3):
                hvd.allreduce(tf.zeros([1]), name=f"settle {turn}")
            before = horovod_opt.stats().requested_rounds
        own = [float(rank + number) for rank in everyone]
        sums = [tensor.numpy().tolist() for tensor in step(tf.fill([4], own[RANK]))]
        first = total(own, everyone)
        left, right = total([first + value for value in own], some), total(own, some)
        last = total([left + right if rank in some else own[rank] for rank in everyone], everyone)
        expected = [[first] * 4, [last] * 4]
        if RANK in some:
            expected += [[left] * 4, [right] * 4, [own[rank] for rank in some for _ in range(4)]]
        if sums != expected:
            problems.append(f"step {number}: {sums}, not {expected}")
    rounds = horovod_opt.stats().requested_rounds - before
    plans = [(plan.process_set, plan.state, [list(names) for names in plan.buckets])
             for plan in horovod_opt.plans()]
    meet("rounds")  # every rank has read both, before any shuts Horovod down
report(wrong=problems, rounds=rounds, plans=plans, included=RANK in some)
