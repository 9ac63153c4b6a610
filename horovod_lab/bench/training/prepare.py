"""What the options ask for. All that can be refused is refused here, before anything runs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from horovod_lab.bench.training import hosts, jobs
from horovod_lab.bench.training.hosts import Hosts
from horovod_lab.bench.training.jobs import Cell
from horovod_lab.bench.training.run_job import (
    TF_CNN_NAMES,
    Setup,
    find_tf_cnn_benchmarks,
    has_gpu,
)
from horovod_lab.bench.worker_job import BASE, LIMIT, Series
from horovod_opt.arguments import Refusal
from horovod_opt.cpu_set import allowed_cpus, count_cores


def prepare(options: argparse.Namespace) -> tuple[list[Cell], list[Series], Setup]:
    """Raises Refusal, or HostsError for a list of hosts."""
    script = _script(options.tf_cnn_benchmarks)
    framework = jobs.TF_CNN if script else options.framework
    models = _models(options, framework)
    inputs = _inputs(options.input, framework)
    if options.breakdown and framework != jobs.TENSORFLOW:
        raise Refusal(f"--breakdown is measured with TensorFlow only, not with {framework}")
    if options.global_batch and options.batch:
        raise Refusal("--batch is for weak, --global-batch for strong scaling: give one of them")
    series = [Series(LIMIT, communicates=False), Series(BASE), *options.modes,
              *filter(None, [options.plain])]
    where = _where(options)
    cells = [Cell(model, framework, kind, ranks, _batch(options, ranks),
                  options.pixels or jobs.PIXELS[model], separate)
             for ranks in options.ranks for model in models for kind in inputs
             for separate in (False, True)[:1 + options.breakdown]]
    cores = count_cores(allowed_cpus())
    threads = options.threads or max(1, cores // max(map(where.on_first, options.ranks)))
    return cells, series, Setup(
        options.seconds, threads, options.timeout,
        (options.images or options.output / "images").absolute(), where, script, options.batches)


def _script(checkout: Path | None) -> Path | None:
    """Of tf_cnn_benchmarks, if it is asked for."""
    try:
        return checkout and find_tf_cnn_benchmarks(checkout)
    except ValueError as error:
        raise Refusal(f"--tf-cnn-benchmarks: {error}") from error


def _models(options: argparse.Namespace, framework: str) -> list[str]:
    names = {jobs.TENSORFLOW: list(jobs.PIXELS), jobs.TF_CNN: list(TF_CNN_NAMES),
             jobs.TORCH: [name for name in jobs.PIXELS if name.startswith("ResNet")]}[framework]
    models = names if options.models == "all" else options.models.split(",")
    for model in models:
        if model not in names:
            raise Refusal(f"--models: {model!r} is not one of {', '.join(names)} ({framework})")
        smallest = jobs.SMALLEST.get(model, 32)
        if options.pixels and options.pixels < smallest:
            raise Refusal(f"--pixels: {model} needs at least {smallest}, not {options.pixels}")
    return models


def _inputs(text: str, framework: str) -> list[str]:
    kinds = text.split(",")
    for kind in kinds:
        if kind not in ("synthetic", "real"):
            raise Refusal(f"--input: {kind!r} is neither synthetic nor real")
    if "real" in kinds and framework == jobs.TORCH:
        raise Refusal("--input real is read by tf.data: leave out --framework torch")
    return kinds


def _where(options: argparse.Namespace) -> Hosts:
    where = (hosts.from_option(options.hosts) if options.hosts
             else hosts.from_file(options.hostfile) if options.hostfile
             else hosts.from_slurm(os.environ))
    for ranks in options.ranks:
        where.check(ranks)
    return where


def _batch(options: argparse.Namespace, ranks: int) -> int:
    """Images a rank and step."""
    if not options.global_batch:
        return options.batch or (32 if has_gpu() else 4)
    if options.global_batch % ranks:
        raise Refusal(f"--global-batch: {options.global_batch} images cannot be divided equally "
                      f"among {ranks} ranks")
    return options.global_batch // ranks
