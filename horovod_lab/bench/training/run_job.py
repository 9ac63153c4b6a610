"""One job of the benchmark: starts it and turns what it prints into a measurement."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from horovod_lab.bench.training.hosts import Hosts
from horovod_lab.bench.training.jobs import TF_CNN, TORCH, Cell, Job
from horovod_lab.bench.worker_job import LIMIT, WORKERS, parse_result
from horovod_lab.measuring import launch

# As the networks are called there; the others it takes from another repository.
TF_CNN_NAMES = {"ResNet50": "resnet50", "ResNet101": "resnet101", "ResNet152": "resnet152",
                "AlexNet": "alexnet", "GoogLeNet": "googlenet", "Inception-v3": "inception3",
                "VGG16": "vgg16"}
TF_CNN_WARM_UP = 10  # steps, enough for mode topo: see WARM_UP in workers/training.py
DOES_NOT_FIT = re.compile(r"\S+ does not fit the memory of .*")
IMAGES_PER_SECOND = re.compile(r"total images/sec: *([0-9.]+)")


@dataclass(frozen=True)
class Setup:
    """What all jobs of a benchmark share."""

    seconds: float
    threads: int
    timeout: float
    images: Path  # folder of the real input
    hosts: Hosts = Hosts()
    tf_cnn_benchmarks: Path | None = None  # its script
    tf_cnn_batches: int = 20


def measure(job: Job, setup: Setup) -> dict:
    """What the job's JSON holds beside its key.

    Raises:
        launch.JobFailed: with the reason; nothing of the job is left running.
    """
    if job.cell.framework == TF_CNN:
        return _tf_cnn(job, setup)
    first = setup.hosts.on_first(job.cell.ranks)
    if job.series.name == LIMIT and first < job.cell.ranks:
        # Ranks that do not communicate are as fast on one host as on many hosts like it.
        alone = measure(replace(job, cell=replace(job.cell, ranks=first)), setup)
        return {**alone, "images_per_second":
                alone["images_per_second"] * job.cell.ranks / first}
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as folder:
        program = worker(job.cell, setup)
        if not setup.hosts.capacities or not job.series.communicates:
            program += ["--rendezvous", folder]
        commands = job.series.commands(program, job.cell.ranks, setup.hosts.options())
        try:
            output = launch.execute(commands, job.series.environ(), setup.timeout)
        except launch.JobFailed as failure:
            reason = DOES_NOT_FIT.search(str(failure))
            raise launch.JobFailed(reason[0]) if reason else failure from None
    result = parse_result(output)
    per_rank = result["per_rank"]
    parts = [part for part in per_rank.get("parts", ()) if part]
    return {**result["metrics"], "mpi": result["mpi"], "memory_mib": max(per_rank["memory_mib"]),
            "stats": per_rank["counters"] if all(per_rank["counters"]) else None,
            "breakdown": {name: statistics.mean(part[name] for part in parts)
                          for name in parts[0]} if parts else None}


def worker(cell: Cell, setup: Setup) -> list[str]:
    """A file of workers/ and its arguments."""
    program = ["train_torch.py" if cell.framework == TORCH else "train.py",
               "--model", cell.model, "--batch", str(cell.batch), "--pixels", str(cell.pixels),
               "--threads", str(setup.threads), "--seconds", str(setup.seconds)]
    program += ["--images", str(setup.images)] if cell.input == "real" else []
    return program + (["--separate"] if cell.separate else [])


def _tf_cnn(job: Job, setup: Setup) -> dict:
    cell, series = job.cell, job.series
    update = "horovod" if series.communicates else "replicated"
    program = [str(setup.tf_cnn_benchmarks), f"--variable_update={update}",
               f"--model={TF_CNN_NAMES[cell.model]}", f"--batch_size={cell.batch}",
               f"--num_intra_threads={setup.threads}", f"--num_batches={setup.tf_cnn_batches}",
               f"--num_warmup_batches={TF_CNN_WARM_UP}",
               *(["--device=gpu"] if has_gpu() else ["--device=cpu", "--data_format=NHWC"])]
    if cell.input == "real":
        program += [f"--data_dir={setup.images}", "--data_name=imagenet"]
    commands = [[series.python, *program]] * cell.ranks
    if series.communicates:
        commands = series.commands(program, cell.ranks, setup.hosts.options())
    environ = {**series.environ(), "TF_USE_LEGACY_KERAS": "1"}
    output = launch.execute(commands, environ, setup.timeout)
    total = total_images_per_second(output, cell.ranks, shared=series.communicates)
    return {"images_per_second": total, "step_seconds": cell.ranks * cell.batch / total,
            "steps": setup.tf_cnn_batches, "mpi": None, "memory_mib": None, "stats": None,
            "breakdown": None}


def total_images_per_second(output: str, ranks: int, shared: bool) -> float:
    """Of all ranks of tf_cnn_benchmarks. With Horovod (`shared`) each rank prints that of all, as
    it sees it; without, its own. Raises launch.JobFailed."""
    totals = [float(total) for total in IMAGES_PER_SECOND.findall(output)]
    if len(totals) != ranks:
        raise launch.JobFailed(
            f"ended with {len(totals)} lines 'total images/sec' for {ranks} ranks in its output, "
            f"which was {output[-2000:]!r}")
    return sum(totals) / ranks if shared else sum(totals)


def has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists()


def find_tf_cnn_benchmarks(path: Path) -> Path:
    """The script in a checkout of tensorflow/benchmarks, in its folder, or itself.

    Raises ValueError if it is in none of these places."""
    name = "tf_cnn_benchmarks.py"
    for candidate in (path / "scripts" / "tf_cnn_benchmarks" / name, path / name, path):
        if candidate.name == name and candidate.is_file():
            return candidate.resolve()
    raise ValueError(f"there is no {name} in {path}; give a checkout of tensorflow/benchmarks, or "
                     "the script's folder")


def make_images(folder: Path) -> None:
    """The real input, once. Raises launch.JobFailed."""
    launch.execute([[sys.executable, str(WORKERS / "images.py"), str(folder)]],
                   {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "CUDA_VISIBLE_DEVICES": "-1"}, 600)
