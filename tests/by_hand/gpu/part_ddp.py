"""Part 8: steps/s against PyTorch's DistributedDataParallel: what one rank that reduces costs its
host is the figure that one GPU can tell."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

from gpu_table import Row, judge
from part_setup import Setup, problem

DDP, ALONE, TOPO = "DistributedDataParallel", "no communication", "topo"
ASYNCHRONOUS = "topo, asynchronous completion"
WAYS = {
    ALONE: {}, DDP: {}, "off": {}, TOPO: {"HOROVOD_OPT_MODE": "topo"},
    ASYNCHRONOUS: {"HOROVOD_OPT_MODE": "topo", "HOROVOD_ENABLE_ASYNC_COMPLETION": "1"},
}
TARGET = 1.0  # of DistributedDataParallel's


def rows(setup: Setup) -> Iterator[Row]:
    ranks = max(1, setup.gpus)
    full = ("full", "cuda") if setup.gpus else ("tiny", "cpu")
    job = setup.job("against-ddp", "against_ddp", *full, setup.seconds, max(3, setup.rounds),
                    json.dumps(WAYS), ranks=ranks)
    wrong = problem(job, ranks)
    if wrong:
        yield judge("8", "steps/s against DistributedDataParallel", wrong, False)
        return
    report = job.reports()[0]
    for model, by_way in report["measured"].items():
        yield judged(f"{model}, {ranks} ranks", model, by_way, report["unplanned"])


def judged(what: str, model: str, by_way: dict[str, list[float]], unplanned: list[str]) -> Row:
    rates = {way: statistics.median(of_rounds) for way, of_rounds in by_way.items()}
    value = "; ".join(f"{way}: {rate:.2f} steps/s, {rate / rates[DDP]:.2f}"
                      for way, rate in rates.items())
    missing = [way for way in by_way if f"{model}: {way}" in unplanned]
    value += "".join(f"; no gradient is planned: {way}" for way in missing)
    return judge("8", what, value, rates[TOPO] >= TARGET * rates[DDP] and not missing)
