"""Part 1: gradients that a GPU writes only some time after they are handed over, in the build
without GPU operations; mode topo against off."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_table import Row, judge
from part_setup import Setup, problem

NEGOTIATED = 12  # at most so many steps, before the plan is active
MODES = ("off", "topo")


def rows(setup: Setup) -> Iterator[Row]:
    for ranks in (2, 4):
        job = setup.job(f"delayed-{ranks}", "delayed_gradients", setup.library, setup.steps,
                        ranks=ranks)
        wrong = problem(job, ranks)
        if wrong:
            yield judge("1", f"{ranks} ranks, topo against off", wrong, False)
        else:
            yield from comparison_rows(ranks, setup.steps, job.of_ranks(ranks))


def comparison_rows(ranks: int, steps: int, reports: list[dict]) -> Iterator[Row]:
    """`reports`: of each rank, as delayed_gradients.py has them."""
    if ranks == 2:
        same = sum(report["same"] for report in reports) == ranks
        yield judge("1", "2 ranks: topo is off, bit for bit", f"{steps} steps", same)
    for mode in MODES:
        digests = {report[mode]["digest"] for report in reports}
        yield judge("1", f"{ranks} ranks, {mode}: all ranks have the same bits",
                    f"{steps} steps", len(digests) == 1)
        inexact = max(report[mode]["inexact"] for report in reports)
        yield judge("1", f"{ranks} ranks, {mode}: sums of integers are exact",
                    f"{inexact} steps are not", inexact == 0)
        share = max(report[mode]["error"] for report in reports)
        yield judge("1", f"{ranks} ranks, {mode}: error, of (ranks - 1) 2^-23 sum(|x|)",
                    f"{share:.2f}", share <= 1)
    planned = min(report["topo"]["planned"] for report in reports)
    yield judge("1", f"{ranks} ranks: planned steps", f"{planned} of {steps}",
                planned >= steps - NEGOTIATED)
    early = min(report["topo"]["early"] for report in reports)
    yield judge("1", f"{ranks} ranks: the thread that hands over did not wait for the data",
                f"{early} of the last {steps - steps // 2} steps", early >= steps / 10)
