"""The command `horovod-opt simulate`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horovod_lab.bench.worker_job import BASE
from horovod_opt.arguments import INTERRUPTED, Refusal, positive

if TYPE_CHECKING:
    from horovod_lab.simulate.parameters import Setup

NAME = "horovod-opt simulate"
MODES = "off,gs,nbcs,scp,topo,topo+scp"  # those of the source
SUMMIT_RANKS = "6,24,96,384,1536,6144,24576"
SUMMIT_STEPS = 500  # source, 6.2.1
PROFILE_STEPS = 50
PROFILE_NODES = (1, 4, 16, 64, 256)  # of as many ranks as the profile has


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "simulate", help="predict what the modes bring at any number of ranks",
        description="Simulates the background threads of all ranks in each mode, from a preset or "
        "from a profile of your own job, and shows images/s, efficiency, what a mode brings over "
        "off, and where a step's time goes. docs/lab/simulation-model.md has the model, "
        "docs/lab/simulation-fit.md the origin of every parameter. Exit status 2 if something "
        "cannot be simulated, 130 if interrupted.")
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument("--preset", choices=("summit",), default="summit",
                        help="ResNet50 on Summit, as the source measured it (%(default)s)")
    origin.add_argument("--from", type=Path, metavar="FILE", dest="profile",
                        help="profile.json of horovod-opt profile, best of mode off")
    parser.add_argument("--ranks", metavar="N,...", help=f"numbers of ranks ({SUMMIT_RANKS}; with "
                        "--from: that of the profile, and up to 256 times as many)")
    parser.add_argument("--modes", default=MODES, metavar="NAMES", help="(%(default)s)")
    parser.add_argument("--steps", type=positive, metavar="N",
                        help=f"training steps ({SUMMIT_STEPS}; with --from: {PROFILE_STEPS})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
                        help="another value for a parameter; may be repeated")
    parser.add_argument("--validate", type=Path, metavar="FILE",
                        help="also compare with bench.json of horovod-opt bench, or with "
                        "nodes.json of horovod-opt bench nodes")
    parser.add_argument("--output", type=Path, default=Path("simulation"), metavar="FOLDER",
                        help="for simulation.json and the pictures (%(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_lab.measuring.documents import DocumentError, load
    from horovod_lab.simulate.parameters import ParameterError

    options.steps = options.steps or (PROFILE_STEPS if options.profile else SUMMIT_STEPS)
    try:
        if options.seed < 0:
            raise Refusal(f"--seed {options.seed} is not a number of at least 0")
        setup, profiled = prepare(options)
        modes = choose_modes(options.modes, setup)
        counts = choose_ranks(options, setup)
        benchmark = load(options.validate, "bench", "nodes") if options.validate else None
        if benchmark:
            with _complete(options.validate):
                check_benchmark(benchmark, calibrated=bool(profiled))
        try:
            options.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(f"--output {options.output}: {error.strerror}") from error
        return simulate(options, setup, profiled, modes, counts, benchmark)
    except (Refusal, DocumentError, ParameterError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2


def prepare(options: argparse.Namespace) -> tuple[Setup, dict[str, Any] | None]:
    """(the parameters, with the user's own in place; the job of the profile they come from).

    Raises:
        ParameterError, DocumentError: a value or the profile cannot be used.
    """
    from horovod_lab.measuring.documents import load
    from horovod_lab.simulate import calibrate, summit
    from horovod_lab.simulate.parameters import parse_settings

    if options.profile:
        settings = parse_settings(options.settings, also=("step_seconds",))
        document = load(options.profile, "profile")
        with _complete(options.profile):
            return (calibrate.from_profile(document, settings),
                    {"file": str(options.profile), **calibrate.profiled(document, settings)})
    return summit.setup().changed("set", **parse_settings(options.settings)), None


def check_benchmark(benchmark: dict[str, Any], calibrated: bool) -> None:
    """Raises ParameterError if nothing of it can be predicted. `calibrated`: by a profile."""
    from horovod_lab.simulate import validate, validate_nodes

    of_nodes = benchmark["kind"] == "nodes"
    (validate_nodes if of_nodes else validate).check(benchmark, calibrated)


def compare_with_benchmark(benchmark: dict[str, Any], profiled: Setup | None, seed: int,
                           report: Callable[[str], None]) -> dict[str, Any]:
    """The "validation" of the document."""
    from horovod_lab.simulate import validate, validate_nodes

    if benchmark["kind"] == "nodes":
        return validate_nodes.validate(benchmark, seed, report)
    return validate.validate(benchmark, profiled, seed, report)


@contextmanager
def _complete(path: Path) -> Iterator[None]:
    """Refuses a file that is of the right kind but lacks what its kind has."""
    try:
        yield
    except (KeyError, TypeError) as error:
        raise Refusal(f"{path} lacks {error}; remedy: measure it again") from error


def choose_modes(text: str, setup: Setup) -> list[str]:
    """In the user's order, off first if it is among them: the others are compared with it.

    Raises:
        ParameterError, Refusal: one is unknown, or none is possible.
    """
    from horovod_lab.simulate import model, study

    names = list(dict.fromkeys(text.split(",")))
    for mode in names:
        model.check(setup.parameters, mode, 1)
    modes = [mode for mode in names if study.possible(setup.parameters, mode)]
    if left_out := [mode for mode in names if mode not in modes]:
        print(f"Left out: {', '.join(left_out)}. scp needs two cores for each rank.",
              file=sys.stderr)
    if not modes:
        raise Refusal("--modes: none of them is possible")
    return sorted(modes, key=lambda mode: mode != BASE)


def choose_ranks(options: argparse.Namespace, setup: Setup) -> list[int]:
    """Ascending. Raises Refusal."""
    node = int(setup.parameters.ranks_per_node)
    default = ",".join(str(node * nodes) for nodes in PROFILE_NODES)
    text = options.ranks or (default if options.profile else SUMMIT_RANKS)
    counts = set()
    for setting in text.split(","):
        if not setting.strip().isdigit() or not 1 <= int(setting) <= 1_000_000:
            raise Refusal(f"--ranks: {setting!r} is not a whole number from 1 to 1000000")
        counts.add(int(setting))
    return sorted(counts)


def simulate(options: argparse.Namespace, setup: Setup, profiled: dict[str, Any] | None,
             modes: list[str], counts: list[int], benchmark: dict[str, Any] | None) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from horovod_lab.measuring import documents, present
    from horovod_lab.simulate import study, summit
    from horovod_lab.simulate.simulation_pictures import section

    start = time.process_time()
    path = options.output / "simulation.json"
    document = documents.new("simulation", ["horovod-opt"])
    document |= {"preset": setup.name, "parameters": setup.to_json(), "profiled": profiled,
                 "seed": options.seed, "steps": options.steps, "results": []}
    console = Console(stderr=True)
    progress = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
                        console=console, disable=not console.is_terminal)

    def keep(results: list[dict]) -> None:
        document["results"] = results
        document["cost"] = study.cost(start)
        documents.save(path, document)

    status = 0
    source = setup.name == "summit" and not options.settings
    try:
        with progress:
            # Cycles cost more where there are more ranks, and a little everywhere.
            task = progress.add_task("", total=options.steps * len(modes)
                                     * sum(ranks + 500 for ranks in counts))

            def report(mode: str, ranks: int) -> None:
                progress.update(task, advance=ranks + 500, description=f"{mode}, {ranks} ranks")

            results = study.run(setup.parameters, modes, counts, options.steps, options.seed, keep,
                                report)
            if source:
                document["source"] = summit.compare(results)
                if {"off", "topo"} <= set(modes):
                    progress.update(task, description="other messages between nodes")
                    document["ways"] = summit.message_ways(results, options.steps, options.seed)
                    progress.update(task, description="other networks")
                    document["networks"] = summit.networks(options.seed)
            if benchmark:
                document["validation"] = compare_with_benchmark(
                    benchmark, setup if options.profile else None, options.seed,
                    lambda text: progress.update(task, description=text))
                document["validation"]["file"] = str(options.validate)
    except KeyboardInterrupt:
        console.print("Interrupted: this is what was simulated until then.")
        status = INTERRUPTED
    if document["results"]:
        keep(document["results"])
        shown_section = section(document)
        present.show(shown_section, options.output)
        print(shown_section.summary)
        console.print(f"Written: {path}", soft_wrap=True)
    return status
