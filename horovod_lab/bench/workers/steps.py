"""Training steps of small models: their synthetic inputs, alike in both frameworks, and how one is
measured: steps/s, and the rounds of negotiation meanwhile."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rank import Rank

Builder = Callable[[Rank], Callable[[], Any]]  # of the step, which returns when it is done

VOCABULARY, EMBEDDING = 20_000, 128
TEXTS, TOKENS, CLASSES = 64, 50, 2
TEXT_WIDTHS = (EMBEDDING, *(13 * (64,)), CLASSES)  # 14 layers
DENSE_WIDTHS = 25 * (256,)  # 24 layers
ROWS = 32

# Steps of a few milliseconds: so many that in mode topo no vote on plans is left to be measured.
WARM_UP = 50


class NotSupported(Exception):
    """The installed Horovod cannot run this kind of step; says why, in its words."""


def texts(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (64, 50) and classes (64,), int64: the same in every job of the rank, whose number is
    the seed."""
    random = np.random.default_rng(rank)
    return random.integers(VOCABULARY, size=(TEXTS, TOKENS)), random.integers(CLASSES, size=TEXTS)


def rows(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (32, 256), float32, and classes (32,), int64; likewise."""
    random = np.random.default_rng(rank)
    values = random.standard_normal((ROWS, DENSE_WIDTHS[0]), dtype=np.float32)
    return values, random.integers(DENSE_WIDTHS[-1], size=ROWS)


def run(workload: str, framework: str, build: Builder) -> None:
    _measure(Rank(workload, framework), build)


def run_workload(builders: Mapping[str, Builder], framework: str,
                 init: Mapping[str, Mapping[str, Any]] = {}) -> None:
    """The workload that the program's argument names; `init`: by workload, what hvd.init() gets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=list(builders))
    rank = Rank(framework=framework, parser=parser)
    workload = rank.options.workload
    _measure(rank, builders[workload], **init.get(workload, {}))


def _measure(rank: Rank, build: Builder, **init: Any) -> None:
    rank.init(**init)
    try:
        step = build(rank)
    except NotSupported as reason:
        rank.report({"not_supported": str(reason)})
        return
    timing = rank.measure(step, WARM_UP)
    rank.report({"steps_per_second": 1 / timing.seconds, "step_seconds": timing.seconds,
                 "steps": timing.steps}, counters=timing.counters)
