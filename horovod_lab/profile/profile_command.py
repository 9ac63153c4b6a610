"""`horovod-opt profile`: its options and messages."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from horovod_opt.arguments import INTERRUPTED

NAME = "horovod-opt profile"


def add(commands: argparse._SubParsersAction) -> None:
    profile = commands.add_parser(
        "profile",
        help="show what the threads of a running job do: background thread, input pipeline, ...",
        usage="%(prog)s [options] -- COMMAND [ARGUMENT ...]\n"
              "       %(prog)s [--output DIR] --compare PROFILE.json PROFILE.json ...",
        description="Runs a Horovod job, also one of upstream's Horovod, and samples the threads "
        "of its ranks on this node. Nothing in the job is changed, and no root is needed. Or "
        "compares profiles that were made before.",
    )
    profile.add_argument("--output", type=Path, default=Path("profile"), metavar="DIR",
                         help="receives profile.json and the pictures (%(default)s)")
    profile.add_argument("--interval", type=_seconds, default=0.5, metavar="SECONDS",
                         help="from one sample to the next (%(default)s)")
    profile.add_argument("--label", default="", metavar="TEXT",
                         help="name of this profile in comparisons, as in 'synthetic' and 'real'")
    profile.add_argument("--classes", type=Path, metavar="FILE",
                         help="JSON: patterns of threads' names and the classes they belong to")
    profile.add_argument("--timeline", action="store_true",
                         help="trace.json has buckets, waits and input of every rank as well: the "
                         "job writes them, unless it is of upstream's Horovod")
    profile.add_argument("--no-live", action="store_true", help="no table while the job runs")
    profile.add_argument("--compare", type=Path, nargs="+", metavar="PROFILE.json",
                         help="draw these profiles beside each other; no job")
    profile.add_argument("job", nargs=argparse.REMAINDER, metavar="COMMAND",
                         help="the job, as in horovodrun -np 2 python train.py")
    profile.set_defaults(run=run)


def _seconds(text: str) -> float:
    number = float(text)
    if not 0.05 <= number <= 60:
        raise ValueError
    return number


_seconds.__name__ = "number of seconds, from 0.05 to 60"


class CommandError(Exception):
    """What the user has to change; the text says it."""


def run(options: argparse.Namespace) -> int:
    from horovod_lab.measuring.documents import DocumentError
    from horovod_lab.profile.classes import ClassesError
    from horovod_lab.profile.job import NotStarted

    command = options.job[1:] if options.job[:1] == ["--"] else options.job
    new = not os.path.exists(options.output)
    try:
        try:
            options.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{options.output} cannot be made: {error.strerror}") from error
        if not os.access(options.output, os.W_OK):
            raise CommandError(f"{options.output} cannot be written to")
        if options.compare:
            if command:
                raise CommandError("either --compare or a job")
            return _compare(options.compare, options.output)
        if not command:
            raise CommandError("no job; remedy: horovod-opt profile -- horovodrun -np 2 python "
                               "train.py")
        return _profile(options, command)
    except (CommandError, ClassesError, DocumentError, NotStarted) as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if new:
            with contextlib.suppress(OSError):  # of a folder with something in it, or never made
                options.output.rmdir()


def _say(text: str) -> None:
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def _profile(options: argparse.Namespace, command: Sequence[str]) -> int:
    from rich.console import Console

    from horovod_lab.measuring import documents
    from horovod_lab.profile.classes import Classes, read_classes
    from horovod_lab.profile.proc import Proc
    from horovod_lab.profile.run_profile import Profile

    classes = read_classes(options.classes) if options.classes else Classes()
    if not Proc().schedstat_is_kept():
        raise CommandError("/proc has no schedstat here: it needs Linux, with CONFIG_SCHED_INFO")
    console = Console(stderr=True, highlight=False)
    live = console.is_terminal and not options.no_live
    profile = Profile(command, options.output, options.interval, classes,
                      console if live else None, options.timeline)
    profile.run()
    job = profile.job
    document = profile.document(options.label)
    path = options.output / "profile.json"
    trace = options.output / "trace.json"
    said = []
    if document["ranks"]:
        documents.save(path, document)
        said = profile.write_trace(trace)
    job.release()  # until here, Ctrl-C would lose what was measured
    status = 128 + job.interrupted if job.interrupted else 2 if profile.status else 0
    if job.leftover:
        _say(f"{job.leftover} processes outlived the job and were ended")
    if not document["ranks"]:
        _say(f"the job ended with exit status {profile.status}, and none of its processes on this "
             "node had called hvd.init(): no Horovod job to profile, nothing is written")
        return status or 2
    if profile.status:
        _say(f"the job ended with exit status {profile.status}; what was sampled until then is "
             "kept")
    remote = document["job"]["expected"] - document["job"]["ranks"]
    if remote > 0:
        _say(f"{remote} of {document['job']['expected']} ranks are not on this node, or never had "
             "a background thread: they are not in the profile")
    for text in said:
        _say(text)
    _say(f"written: {path}")
    _say(f"written: {trace}, for ui.perfetto.dev or chrome://tracing")
    try:
        present, pictures, _ = _drawing()
    except CommandError as error:
        _say(str(error))
        return status
    section = pictures.section(document)
    if not console.is_terminal:
        console.width = present.WIDTH
    for grid in section.grids:  # on stderr: stdout is the job's
        console.print(present.rich_table(grid))
    for picture in present.save_pictures(section.pictures, options.output):
        _say(f"written: {picture}")
    return status


def _compare(paths: Sequence[Path], folder: Path) -> int:
    from horovod_lab.measuring import documents

    if len(paths) < 2:
        raise CommandError("--compare needs two profiles or more")
    profiles = [documents.load(path, "profile") for path in paths]
    names = [profile["label"] or path.resolve().parent.name
             for profile, path in zip(profiles, paths)]
    present, _, compare = _drawing()
    present.show(compare.comparison(names, profiles), folder)
    return 0


def _drawing() -> tuple[ModuleType, ModuleType, ModuleType]:
    """What needs matplotlib, which only those have who want pictures."""
    try:
        from horovod_lab.measuring import present
        from horovod_lab.profile import compare, profile_pictures
    except ImportError as error:
        raise CommandError(f"no tables and no pictures: {error}; remedy: pip install "
                           "'horovod-opt[experiments]'") from error
    return present, profile_pictures, compare
