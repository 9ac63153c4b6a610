"""Part 5: images/s of ResNet50 on synthetic images by mode, type and size of the buckets."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_builds import NCCL
from gpu_table import Row, judge
from jobs import Job
from part_setup import Setup, problem

MODEL, PIXELS = "ResNet50", 224
TYPES = ("float32", "bfloat16")
ALONE = "no communication"
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)  # MiB of a bucket


@dataclass(frozen=True)
class Config:
    """What is measured beside each other. `mode`: ALONE, or of Horovod; `bucket_mib`: 0: as many
    as by default."""

    mode: str
    dtype: str = "float32"
    bucket_mib: int = 0


def rows(setup: Setup) -> Iterator[Row]:
    nccl = setup.build == NCCL
    ranks = setup.gpus if nccl else 2 * setup.gpus
    where = f"{ranks} ranks with NCCL" if nccl else f"{ranks} ranks without GPU operations"
    modes = [Config(mode, dtype) for dtype in TYPES
             for mode in ((ALONE, "off", "topo") if nccl else ("off", "topo"))]
    sizes = [Config("topo", dtype, size) for dtype in TYPES for size in SIZES] if nccl else []
    job = setup.job(f"images-{setup.build}", "images_by_mode", MODEL, PIXELS, setup.batch,
                    setup.seconds, setup.rounds, 4, "cuda",
                    json.dumps([vars(config) for config in modes + sizes]), ranks=ranks)
    for dtype in TYPES:
        yield from rate_rows("5", f"{MODEL}, {dtype}, {where}",
                             [config for config in modes if config.dtype == dtype], job, ranks)
    for dtype in TYPES if nccl else ():
        yield best_size(f"{MODEL}, {dtype}, {where}: topo, MiB of a bucket: images/s", dtype, job,
                        ranks)


def rates(job: Job) -> dict[Config, float]:
    """Images/s of all ranks: medians of the rounds."""
    return {Config(**measurement["config"]): statistics.median(measurement["images_per_second"])
            for measurement in job.reports()[0]["measured"]}


def rate_rows(part: str, what: str, configs: Sequence[Config], job: Job, ranks: int
             ) -> Iterator[Row]:
    """A row for each mode: images/s, and how many times those of mode off it is. Passed: it was
    measured, with planned gradients where there is a plan."""
    wrong = problem(job, ranks)
    if wrong:
        yield judge(part, what, wrong, False)
        return
    by_config = rates(job)
    unplanned = {Config(**config) for report in job.of_ranks(ranks)
                 for config in report["unplanned"]}
    base = next((by_config[config] for config in configs if config.mode == "off"), None)
    for config in configs:
        value = f"{by_config[config]:.1f} images/s"
        value += f", {by_config[config] / base:.2f} of off" if base else ""
        value += ", no gradient is planned" if config in unplanned else ""
        yield judge(part, f"{what}: {config.mode}", value, config not in unplanned)


def best_size(what: str, dtype: str, job: Job, ranks: int) -> Row:
    wrong = problem(job, ranks)
    if wrong:
        return judge("5", what, wrong, False)
    by_config = rates(job)
    of_size = {size: by_config[Config("topo", dtype, size)] for size in SIZES}
    best = max(of_size, key=of_size.__getitem__)
    return judge("5", what, ", ".join(f"{size}: {rate:.0f}" for size, rate in of_size.items())
                 + f"; most with {best}", True)
