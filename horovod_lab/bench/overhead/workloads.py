"""What is run, and in which order."""

from __future__ import annotations

import argparse

from horovod_lab.bench.worker_job import BASE, LIMIT, Series
from horovod_lab.measuring.comparison import in_rounds

# Seconds measured in a job, beside those it takes to start.
SECONDS = {"idle": 3.0, "chain": 3.0, "small": 3.0, "resnet50": 6.0, "resnet50_torch": 6.0}
TRAINING = ("resnet50", "resnet50_torch")
# One intra-op thread leaves a rank no second one to hide the background thread's CPU use behind.
RESNET50 = ("--model", "ResNet50", "--batch", "4", "--pixels", "96", "--threads", "1")
PROGRAMS = {"idle": ("idle.py",), "chain": ("allreduces.py", "chain"),
            "small": ("allreduces.py", "small"), "resnet50": ("train.py", *RESNET50),
            "resnet50_torch": ("train_torch.py", *RESNET50)}
# What else trains a workload on several ranks.
PEERS = {"resnet50_torch": (
    Series("DDP", communicates=False, arguments=("--ddp",)),
    Series("DDP, static graph", communicates=False, arguments=("--ddp", "--static-graph")),
)}


def all_series(options: argparse.Namespace) -> list[Series]:
    return [Series(LIMIT, communicates=False), Series(BASE), *options.modes,
            *filter(None, [options.plain])]


def jobs(options: argparse.Namespace, cores: int) -> list[tuple[int, str, int, Series]]:
    """(round, workload, ranks, series) in the order in which they run."""
    counts, rounds = options.ranks, options.rounds
    if options.quick:
        counts, rounds = counts[:1], 1
    cells = [(workload, ranks) for workload in options.only
             for ranks in (counts if workload in TRAINING else counts[:1])]

    def of(cell: tuple[str, int]) -> list[Series]:
        workload, ranks = cell
        return [series for series in (*all_series(options), *PEERS.get(workload, ()))
                if series.fits(ranks, cores)]

    return [(number, *cell, series) for number, cell, series in in_rounds(cells, of, rounds)]
