"""Part 2: planned buckets on GPUs. Who starts them, in which order, when, and through which
communicator; and the settings of Horovod that choose other operations for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_table import NOT_RUN, Row, judge
from jobs import Job
from part_setup import Setup, problem

STEPS, LAST = 40, 10  # of them the last are looked at: the plan is active, its buckets rebuilt
NEGOTIATED = 12       # at most so many, before
LEAST_AHEAD_MS = 2.0  # of 12 that the gradients of a step take, one after the other
PLANNED = {"planned": {}}
SETTINGS = {
    "hierarchical allreduce": {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"},
    "torus allreduce": {"HOROVOD_TORUS_ALLREDUCE": "1"},
    "autotune": {"HOROVOD_AUTOTUNE": "1"},
}
# The least that tunes. Read when Horovod is loaded.
SHORT = {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
         "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3"}
# host:process:thread [device] NCCL INFO AllReduce: ... count 2400 ... comm 0x55... ...
ALLREDUCE = re.compile(
    r":\d+:(?P<thread>\d+) \[\d+\] NCCL INFO AllReduce: .*?\bcount (?P<elements>\d+) "
    r".*?\bcomm (?P<communicator>0x[0-9a-f]+)")
LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}
TWO_ON_ONE = "Duplicate GPU detected"  # how NCCL refuses two ranks on a GPU


def rows(setup: Setup) -> Iterator[Row]:
    ranks = setup.gpus or 2
    arguments = setup.library, STEPS
    logging = dict(LOGGED, NCCL_DEBUG_FILE=str(setup.folder / "nccl.%p"))
    job = setup.job("order", "bucket_order", *arguments, json.dumps(PLANNED), ranks=ranks,
                    **(logging if setup.gpus else {}))
    wrong = problem(job, ranks)
    if wrong:
        yield judge("2", "planned buckets on GPUs", wrong, False)
    else:
        reports = [report["planned"] for report in job.of_ranks(ranks)]
        yield from right("planned buckets on GPUs", reports)
        yield from (nccl_order_rows(reports, setup.folder) if setup.gpus else
                    memory_order_rows(reports))
        ahead = min(report["ahead_ms"] for report in reports)
        yield judge("2", "sum of the first bucket before the last gradient's data",
                    f"{ahead:.1f} ms", ahead >= LEAST_AHEAD_MS)
    job = setup.job("settings", "bucket_order", *arguments, json.dumps(SETTINGS), ranks=ranks,
                    **SHORT)
    wrong = problem(job, ranks)
    for name in SETTINGS:
        if wrong:
            yield judge("2", name, wrong, False)
        else:
            yield from right(name, [report[name] for report in job.of_ranks(ranks)])
    if setup.gpus == 1:
        yield two_ranks_on_one(setup.job("two-on-one", "bucket_order", *arguments,
                                         json.dumps(PLANNED), ranks=2, controller="gloo"))


def right(what: str, reports: list[dict]) -> Iterator[Row]:
    wrong = max(report["wrong"] for report in reports)
    yield judge("2", f"{what}: sums are right", f"{wrong} of {STEPS} steps are wrong", wrong == 0)
    planned = min(report["planned"] for report in reports)
    reasons = {report["reason"] for report in reports} - {""}
    yield judge("2", f"{what}: planned steps", "; ".join([f"{planned} of {STEPS}", *reasons]),
                planned >= STEPS - NEGOTIATED)


@dataclass(frozen=True)
class Allreduce:
    thread: int
    elements: int
    communicator: str


def read_log(text: str) -> list[Allreduce]:
    """What NCCL says of the allreduces that it is asked for, with LOGGED; one process, in order."""
    return [Allreduce(int(match["thread"]), int(match["elements"]), match["communicator"])
            for match in ALLREDUCE.finditer(text)]


def ends_with_steps(calls: Sequence[Allreduce], buckets: Sequence[int], steps: int) -> bool:
    """Whether the last calls are those of so many steps, in each of which these `buckets` (their
    elements) are reduced in this order. `calls`: of buckets only."""
    elements = list(buckets) * steps
    return bool(elements) and [call.elements for call in calls[-len(elements):]] == elements


def nccl_order_rows(reports: list[dict], folder: Path) -> Iterator[Row]:
    """From NCCL's own words, those of each process in a file."""
    logs = [read_log(path.read_text(errors="replace")) for path in folder.glob("nccl.*")]
    logs = [calls for calls in logs if calls]
    log_count = f"{len(logs)} of {len(reports)} ranks have a log"
    complete = len(logs) == len(reports)
    smallest = min(min(report["buckets"]) for report in reports)
    buckets = [[call for call in calls if call.elements >= smallest] for calls in logs]
    in_order = all(ends_with_steps(calls, reports[0]["buckets"], LAST) for calls in buckets)
    yield judge("2", "NCCL is called in the plan's order",
                f"buckets of {reports[0]['buckets']} elements" if complete else log_count,
                complete and in_order)
    threads = {call.thread for calls in logs for call in calls}
    background_threads = {report["thread"] for report in reports}
    yield judge("2", "NCCL is called from one thread of a rank",
                f"threads {sorted(threads)}, hvd-background {sorted(background_threads)}",
                threads == background_threads)
    communicators = [len({call.communicator for call in calls}) for calls in logs]
    yield judge("2", "communicators of a rank, negotiated sums included",
                str(max(communicators, default=0)), complete and set(communicators) == {1})


def memory_order_rows(reports: list[dict]) -> Iterator[Row]:
    in_order = min(report["in_order"] for report in reports)
    yield judge("2", "sums come in the plan's order", f"{in_order} of {STEPS} steps",
                in_order >= STEPS - NEGOTIATED)
    by_one = min(report["by_background"] for report in reports)
    yield judge("2", "tensors are read by one thread", f"{by_one} of {STEPS} steps",
                by_one == STEPS)


def two_ranks_on_one(job: Job) -> Row:
    what = "two ranks on one GPU"
    if TWO_ON_ONE in job.output and not job.hung and not job.survivors:
        return Row("2", what, f"NCCL refuses it: {TWO_ON_ONE}", NOT_RUN)
    wrong = problem(job, 2)
    if not wrong:
        wrong = "; ".join(row.value for row in right(what, [
            report["planned"] for report in job.of_ranks(2)]) if row.outcome != "passed")
    return judge("2", what, wrong or "works", not wrong)
