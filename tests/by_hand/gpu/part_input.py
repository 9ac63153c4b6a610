"""Part 7: images/s with batches of hio.torch.loader, in ordinary and pinned memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_table import Row, judge
from part_setup import Setup, problem

SYNTHETIC = "synthetic"
TARGET = 0.97  # of synthetic, with pinned memory


def rows(setup: Setup) -> Iterator[Row]:
    full = ("cuda", 128, 224) if setup.gpus else ("cpu", 2, 32)
    workers = max(1, min(14, setup.cores - 2))
    job = setup.job("pinned", "pinned_batches", *full, setup.seconds, setup.rounds, workers,
                    ranks=1)
    wrong = problem(job, 1)
    if wrong:
        yield judge("7", "images/s from pinned memory", wrong, False)
        return
    yield from rate_rows(job.reports()[0]["rates"])


def rate_rows(rates: dict[str, float]) -> Iterator[Row]:
    """Passed: it was measured, and from pinned memory some way reaches the target."""
    pinned = max(rate for way, rate in rates.items() if way.startswith("pinned"))
    for way, rate in rates.items():
        share = rate / rates[SYNTHETIC]
        reached = rate < pinned or not way.startswith("pinned") or share >= TARGET
        yield judge("7", f"ResNet50, bfloat16, batches of bytes: {way}",
                    f"{rate:.1f} images/s, {share:.2f} of {SYNTHETIC}", reached)
