"""The command `horovod-opt bench`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horovod_opt.arguments import INTERRUPTED, positive

if TYPE_CHECKING:
    from horovod_opt.bench.training.jobs import Cell, Job
    from horovod_opt.bench.training.run_job import Setup
    from horovod_opt.bench.worker_job import Series

NAME = "horovod-opt bench"
MODES = "off,gs,nbcs,topo,scp,topo+scp"


class Refused(ValueError):
    """What the user has to change; the text says it."""


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bench", help="measure weak or strong scaling of the modes on this machine or these hosts",
        description="Trains networks in each mode, interleaved, and shows images/s, what a mode "
        "brings over off, and how far it is from training without communication. Measurements are "
        "added to OUTPUT/bench.json: a benchmark that was interrupted goes on when it is started "
        "again. Exit status 2 if something cannot be measured, 130 if interrupted.")
    parser.add_argument("--models", default="ResNet50", metavar="NAMES",
                        help="of ResNet18, 34, 50, 101, 152, AlexNet, GoogLeNet, Inception-v3, "
                             "VGG16, or all (%(default)s)")
    parser.add_argument("--modes", default=MODES,
                        help="what to compare with off (%(default)s); scp is left out where a rank "
                             "has one core")
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4], metavar="N",
                        help="numbers of ranks (2 4)")
    parser.add_argument("--hosts", metavar="NAME:SLOTS,...", help="as -H of horovodrun")
    parser.add_argument("--hostfile", type=Path, metavar="FILE",
                        help="lines of NAME slots=N (default: those of the Slurm allocation, else "
                             "this host)")
    parser.add_argument("--batch", type=positive, metavar="N",
                        help="images a rank and step: weak scaling (32 with a GPU, else 4)")
    parser.add_argument("--global-batch", type=positive, metavar="N",
                        help="images a step of all ranks: strong scaling")
    parser.add_argument("--pixels", type=positive, metavar="N",
                        help="height and width of the images (as published: 224, 227 or 299)")
    parser.add_argument("--input", default="synthetic", metavar="KINDS",
                        help="synthetic, real (JPEGs that are decoded and distorted) or both as "
                             "synthetic,real (%(default)s)")
    parser.add_argument("--images", type=Path, metavar="FOLDER",
                        help="of the real input, made if it is not there (OUTPUT/images)")
    parser.add_argument("--framework", choices=("tensorflow", "torch"), default="tensorflow",
                        help="(%(default)s)")
    parser.add_argument("--tf-cnn-benchmarks", type=Path, metavar="PATH",
                        help="run the unmodified tf_cnn_benchmarks of this checkout instead")
    parser.add_argument("--batches", type=positive, default=20, metavar="N",
                        help="measured steps of tf_cnn_benchmarks (%(default)s)")
    parser.add_argument("--peers", action="store_true",
                        help="also measure MultiWorkerMirroredStrategy or PyTorch's DDP")
    parser.add_argument("--breakdown", action="store_true",
                        help="also measure where a step's time goes: computation, waiting for "
                             "ranks, negotiation, data")
    parser.add_argument("--plain", type=Path, metavar="PYTHON",
                        help="also measure the unpatched Horovod of this Python's environment")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N",
                        help="how often each job is run (%(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, metavar="S",
                        help="measured in each job, beside those it takes to start (%(default)s)")
    parser.add_argument("--threads", type=positive, metavar="N",
                        help="intra-op threads of a rank (cores of this host / its ranks)")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="S",
                        help="after which a job is killed (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("bench"), metavar="FOLDER",
                        help="for bench.json and the pictures (%(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_opt.bench.training.hosts import HostsError
    from horovod_opt.measuring.documents import DocumentError

    try:
        cells, series, setup = prepare(options)
        document = begin(options, setup)
    except (Refused, HostsError, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return Benchmark(options, cells, series, setup, document).run()


def prepare(options: argparse.Namespace) -> tuple[list[Cell], list[Series], Setup]:
    """Everything that can be refused is refused here, before anything runs."""
    import os

    from horovod_opt.bench.training import hosts, jobs
    from horovod_opt.bench.training.run_job import (
        TF_CNN_NAMES,
        Setup,
        find_tf_cnn_benchmarks,
        has_gpu,
    )
    from horovod_opt.bench.worker_job import BASE, LIMIT, Series
    from horovod_opt.settings import SettingsError, load
    from horovod_opt.usable_cores import allowed_cpus, count_cores

    script = None
    framework = options.framework
    if options.tf_cnn_benchmarks:
        framework = jobs.TF_CNN
        try:
            script = find_tf_cnn_benchmarks(options.tf_cnn_benchmarks)
        except ValueError as error:
            raise Refused(f"--tf-cnn-benchmarks: {error}") from error
    known = {jobs.TENSORFLOW: list(jobs.PIXELS), jobs.TF_CNN: list(TF_CNN_NAMES),
             jobs.TORCH: [name for name in jobs.PIXELS if name.startswith("ResNet")]}[framework]
    models = known if options.models == "all" else options.models.split(",")
    for model in models:
        if model not in known:
            raise Refused(f"--models: {model!r} is not one of {', '.join(known)} ({framework})")
        smallest = jobs.SMALLEST.get(model, 32)
        if options.pixels and options.pixels < smallest:
            raise Refused(f"--pixels: {model} needs at least {smallest}, not {options.pixels}")
    kinds = options.input.split(",")
    for kind in kinds:
        if kind not in ("synthetic", "real"):
            raise Refused(f"--input: {kind!r} is neither synthetic nor real")
    if "real" in kinds and framework == jobs.TORCH:
        raise Refused("--input real is read by tf.data: leave --framework torch away")
    series = [Series(LIMIT, communicates=False), Series(BASE)]
    for mode in dict.fromkeys(options.modes.split(",")):
        try:
            name = load({"HOROVOD_OPT_MODE": mode}).mode
        except SettingsError as error:
            raise Refused(f"--modes: {error}") from error
        if name != BASE:
            series.append(Series(name, name))
    if options.plain:
        if not options.plain.with_name("horovodrun").exists():
            raise Refused(f"--plain: there is no horovodrun beside {options.plain}")
        series.append(Series("plain upstream", mode=None, python=str(options.plain.absolute())))
    if options.breakdown and framework != jobs.TENSORFLOW:
        raise Refused(f"--breakdown is measured with TensorFlow only, not with {framework}")
    if options.global_batch and options.batch:
        raise Refused("--batch is for weak, --global-batch for strong scaling: give one of them")

    where = (hosts.from_option(options.hosts) if options.hosts
             else hosts.from_file(options.hostfile) if options.hostfile
             else hosts.from_slurm(os.environ))
    cores = count_cores(allowed_cpus())
    cells = []
    for ranks in options.ranks:
        where.check(ranks)
        if options.global_batch and options.global_batch % ranks:
            raise Refused(f"--global-batch: {options.global_batch} images are not the same number "
                          f"for each of {ranks} ranks")
        batch = (options.global_batch // ranks if options.global_batch
                 else options.batch or (32 if has_gpu() else 4))
        for model in models:
            for kind in kinds:
                for separate in (False, True)[:1 + options.breakdown]:
                    cells.append(jobs.Cell(
                        model, framework, kind, ranks, batch,
                        options.pixels or jobs.PIXELS[model], separate))
    threads = options.threads or max(1, cores // max(map(where.on_first, options.ranks)))
    return cells, series, Setup(
        options.seconds, threads, options.timeout,
        (options.images or options.output / "images").absolute(), where, script, options.batches)


def begin(options: argparse.Namespace, setup: Setup) -> dict[str, Any]:
    """What was measured before with the same settings, or a new document."""
    from horovod_opt.measuring import documents

    settings = {
        "scaling": "strong" if options.global_batch else "weak", "seconds": setup.seconds,
        "threads": setup.threads, "hosts": [list(host) for host in setup.hosts.slots]}
    path = options.output / "bench.json"
    document = documents.new("bench", ["horovod-opt"])
    document |= {"settings": settings, "measurements": []}
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--output: {options.output} cannot be made: {error.strerror}") from error
    if not path.exists():
        return document
    earlier = documents.load(path, "bench")
    now = {**settings, "versions": document["machine"]["versions"]}
    then = {**earlier["settings"], "versions": earlier["machine"]["versions"]}
    different = [name for name in now if now[name] != then.get(name)]
    if different:
        raise Refused(f"{path} was measured with other {', '.join(different)}; remedy: another "
                      "--output, or the same settings")
    return {**earlier, "command": document["command"]}


class Benchmark:
    """Runs what has not been measured yet, and keeps each measurement at once."""

    def __init__(self, options: argparse.Namespace, cells: list[Cell], series: list[Series],
                 setup: Setup, document: dict[str, Any]):
        from rich.console import Console

        from horovod_opt.bench.training import jobs

        self.output = options.output
        self.setup = setup
        self.document = document
        self.console = Console(stderr=True)
        cores = document["machine"]["cores"]
        planned = jobs.order(cells, series, options.rounds, cores, options.peers)
        done = [one for one in document["measurements"] if "failed" not in one]
        self.jobs = [job for job in planned if not any(map(job.made, done))]
        self.kept = len(planned) - len(self.jobs)

    def run(self) -> int:
        try:
            status = self._measure()
        except KeyboardInterrupt:
            self.console.print("Interrupted. The same command goes on from here.")
            status = INTERRUPTED
        if self.document["measurements"]:
            self._show()
        return status

    def _measure(self) -> int:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        from horovod_opt.bench.training.run_job import make_images
        from horovod_opt.measuring import launch

        if self.kept:
            self._say(f"Measured before, and kept: {self.kept} of "
                      f"{self.kept + len(self.jobs)} jobs.")
        if any(job.cell.input == "real" for job in self.jobs) and not self.setup.images.exists():
            self.console.print(f"Making the images in {self.setup.images} ...")
            try:
                make_images(self.setup.images)
            except launch.JobFailed as failure:
                self._say(f"{NAME}: the images could not be made: {failure}")
                return 2
        failed = 0
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                      TimeRemainingColumn(), console=self.console,
                      disable=not self.console.is_terminal) as progress:
            task = progress.add_task("", total=len(self.jobs))
            for job in self.jobs:
                heading = f"round {job.round + 1}  {job.cell}  {job.series.name}"
                progress.update(task, description=heading)
                measurement = self._one(job)
                failed += "failed" in measurement
                self._say(f"{heading}: " + (
                    f"failed: {measurement['failed']}" if "failed" in measurement
                    else f"{measurement['images_per_second']:.3g} images/s"))
                progress.advance(task)
        if failed:
            self._say(f"{NAME}: {failed} of {len(self.jobs)} jobs failed; the others are kept, and "
                      "the same command tries them again")
        return 2 if failed else 0

    def _one(self, job: Job) -> dict[str, Any]:
        from horovod_opt.bench.training.run_job import measure
        from horovod_opt.measuring import documents, launch

        started = time.monotonic()
        try:
            result = measure(job, self.setup)
        except launch.JobFailed as failure:
            result = {"failed": str(failure)}
        measurement = {**job.key(), "mode": job.series.mode if job.series.communicates else None,
                       **result, "job_seconds": round(time.monotonic() - started, 1)}
        earlier = [one for one in self.document["measurements"] if not job.made(one)]
        self.document["measurements"] = [*earlier, measurement]
        documents.save(self.output / "bench.json", self.document)
        return measurement

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _show(self) -> None:
        from horovod_opt.bench.training.scaling_pictures import section
        from horovod_opt.measuring.present import show

        self._say(f"Written: {self.output / 'bench.json'}")
        show(section(self.document), self.output)
