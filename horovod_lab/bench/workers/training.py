"""What training has in common with both frameworks: the options, and what rank 0 prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from rank import Rank, Window

LEARNING_RATE = 0.01
# Steps. So many let mode topo rebuild its buckets, see kWarmUpIterations and kTimedIterations in
# csrc/core/plan/plan_run.h.
WARM_UP = 8


def parser(description: str, networks: Iterable[str], pixels: int | None
           ) -> argparse.ArgumentParser:
    """`pixels`: height and width by default; None: as published."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=networks, required=True)
    parser.add_argument("--batch", type=int, required=True, help="images a rank and step")
    parser.add_argument("--pixels", type=int, default=pixels, help="height and width")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (%(default)s)")
    return parser


def report(rank: Rank, window: Window, **per_rank: Any) -> None:
    """See Rank.report; adds what Horovod's counters grew by."""
    rank.report({"images_per_second": rank.size * rank.options.batch / window.seconds,
                 "step_seconds": window.seconds, "steps": window.steps},
                counters=window.counters, **per_rank)
