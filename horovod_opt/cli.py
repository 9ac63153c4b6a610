"""The command `horovod-opt`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from horovod_lab.bench import bench_command
from horovod_lab.io import io_bench_command
from horovod_lab.profile import profile_command as profile
from horovod_lab.report import report_command as report
from horovod_lab.simulate import simulate_command as simulate
from horovod_lab.trace import trace_command as trace
from horovod_opt import __version__, doctor
from horovod_opt.arguments import positive
from horovod_opt.io import commands as io_commands
from horovod_opt.io.commands import pack_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="horovod-opt",
        description="Looks after an installation of horovod-opt, and shows what it brings.",
    )
    parser.add_argument("--version", action="version", version=f"horovod-opt {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    doctor.add(commands)
    _add_plan(commands)
    bench_command.add(commands)
    profile.add(commands)
    trace.add(commands)
    simulate.add(commands)
    report.add(commands)
    io_commands.add(commands, io_bench_command)
    pack_command.add(commands)
    options = parser.parse_args(
        bench_command.with_suite(sys.argv[1:] if arguments is None else arguments))
    return options.run(options)


def _add_plan(commands: argparse._SubParsersAction) -> None:
    plan = commands.add_parser(
        "plan",
        help="show which tensors of a script or a saved graph are reduced together (mode topo)",
        description="Shows the buckets in which mode topo reduces the tensors of a Python script, "
        "which it starts on some ranks and ends before its first planned step, or of a saved "
        "graph: a GraphDef (.pb, .pbtxt), a SavedModel's directory, a graph or a plan as JSON.",
    )
    plan.add_argument("path", type=Path, metavar="SCRIPT-OR-GRAPH")
    plan.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT",
                      help="arguments of the script")
    plan.add_argument("-np", type=positive, dest="ranks", metavar="N", default=2,
                      help="ranks that run the script (%(default)s)")
    plan.add_argument("--fetch", action="append", default=[], metavar="NAME",
                      help="node or output that is fetched from a GraphDef; may be repeated "
                           "(default: all that nobody reads)")
    plan.add_argument("--train", action="store_true",
                      help="let the script train on until it shows no new plan, for those of its "
                           "later functions; it may overwrite its checkpoints")
    plan.add_argument("--threshold", type=positive, metavar="BYTES",
                      help="largest bucket of several tensors (default: HOROVOD_FUSION_THRESHOLD, "
                           "or 4 MiB, on a GPU 32)")
    plan.add_argument("--svg", type=Path, metavar="FILE",
                      help="draw the plans: .svg, .png or .pdf")
    plan.add_argument("--explain", action="store_true", help="say it in words instead of tables")
    plan.add_argument("--json", action="store_true", help="print the plans as JSON")
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> int:
    from rich.console import Console

    from horovod_opt.planning import plan_command

    job = plan_command.Job(options.ranks, options.arguments, options.train)
    if options.path.suffix == ".py" and options.path.exists():
        print(f"horovod-opt plan: {job.warning(options.path)}", file=sys.stderr, flush=True)
    try:
        with Console(stderr=True).status("Reading the graphs ..."):
            regions = plan_command.regions_of(options.path, options.fetch, options.threshold, job)
    except plan_command.CommandError as error:
        print(f"horovod-opt plan: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([json.loads(region.plan.to_json()) for region in regions if region.plan],
                         indent=1))
        return 0
    plan_command.show(regions, options.explain, Console(highlight=False))
    if options.svg and any(region.plan for region in regions):
        plan_command.draw(regions, options.svg)
        print(f"Written: {options.svg}")
    elif options.svg:
        print(f"horovod-opt plan: {options.svg} is not written: nothing is planned",
              file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
