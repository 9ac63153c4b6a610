"""Builds and tests this checkout with every version of TensorFlow, PyTorch and MPI that it is for.

    tests/by_hand/matrix/run OUTPUT
    tests/by_hand/matrix/run OUTPUT --resume
    tests/by_hand/matrix/run OUTPUT --only tensorflow-2.16,torch-2.4,mpich

Each row has an environment of its own in the folder OUTPUT, which is deleted when the row is over.
docs/use/versions.md has what it printed. Exit status 1 if a row has not passed; 2 if nothing can be
run; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import own_machine
from launch import Job
from matrix_results import FAILED, NOT_BUILT, PASSED, Matrix, Record, SuiteCounts
from matrix_rows import DEBIAN, TORCH, Row, Unusable, choose_rows, newest_of_index, plan
from own_machine import NoMachine
from quick_tests import SUITES
from report import cell
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from row_environment import DEBIAN_PACKAGES, RowEnvironment, Stopped
from versions_page import grid, put_into, text

from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_lab.measuring.present import WIDTH, rich_table
from horovod_opt.arguments import INTERRUPTED

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
PAGE = HERE.parents[2] / "docs" / "use" / "versions.md"
Say = Callable[..., None]


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/matrix/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, metavar="OUTPUT",
                        help="folder, on a disk, for environments, logs and results")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="ROWS",
                        help="some rows, by name or its beginning")
    parser.add_argument("--resume", action="store_true",
                        help="do not try again what OUTPUT has results of")
    parser.add_argument("--keep", action="store_true", help="leave the environments there")
    parser.add_argument("--record", action="store_true",
                        help="also write the results into this checkout: docs/use/versions.md")
    return parser.parse_args(argv)


def try_row(environment: RowEnvironment, show: Say, say: Say) -> Record:
    """Installs, builds and tests. `show` gets what is going on, `say` what has been done."""
    row = environment.row
    record = Record(row)

    def run_step(step: str, function: Callable[[], None]) -> None:
        show(f"{row.name}: {step}")
        begun = time.monotonic()
        try:
            function()
        finally:
            record.seconds[step] = round(time.monotonic() - begun, 1)
        say(f"{row.name} {step}: {record.seconds[step]:g} s")

    try:
        run_step("install", environment.install)
        record.versions, record.ended = environment.versions(), NOT_BUILT
        run_step("build", environment.build)
        record.ended = FAILED
        run_step("test", lambda: run_tests(environment, record, show, say))
    except Stopped as stopped:
        record.error = environment.without_folder(str(stopped))
        say(f"{row.name}: {record.ended}: {record.error}")
    else:
        record.ended = FAILED if record.failed() else PASSED
    return record


def run_tests(environment: RowEnvironment, record: Record, show: Say, say: Say) -> None:
    row = environment.row
    for suite in SUITES[row.framework]:
        job = Job(suite, environment.column, environment.source / "tests", "mpi")
        run = job.run(environment.folder / suite.name, suite.seconds,
                      lambda done, suite=suite: show(f"{row.name}: {suite.name}, {done} tests"))
        say(f"{row.name} {suite.name}:", cell(run), f" {run.seconds:g} s", run.cut)
        record.suites[suite.name] = SuiteCounts.of(run, environment.without_folder)


def run_here(row: Row, arguments: argparse.Namespace, console: Console) -> Record:
    environment = RowEnvironment(row, arguments.output.resolve() / row.name)
    with Progress(SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
                  console=console, transient=True) as progress:
        whole = progress.add_task("")
        try:
            return try_row(environment,
                           lambda what: progress.update(whole, description=what),
                           progress.console.print)
        finally:
            if not arguments.keep:
                environment.remove()


def run_on_own_machine(row: Row, arguments: argparse.Namespace, matrix: Matrix) -> None:
    """The same by another process of this command, where Debian's packages are installed."""
    command = [sys.executable, HERE / "run", arguments.output, "--only", row.name]
    code = own_machine.run_inside([*command, "--keep"] if arguments.keep else command)
    if code < 0:
        raise KeyboardInterrupt
    matrix.read_again()


def run_all(rows: Sequence[Row], arguments: argparse.Namespace, matrix: Matrix, console: Console
            ) -> None:
    for number, row in enumerate(rows, 1):
        console.print(f"row {number} of {len(rows)}: {row.name}")
        try:
            if row.mpi == DEBIAN and not own_machine.is_inside():
                run_on_own_machine(row, arguments, matrix)
                continue
            if row.mpi == DEBIAN:
                own_machine.furnish(DEBIAN_PACKAGES)
            record = run_here(row, arguments, console)
        except NoMachine as missing:
            record = Record(row, error=str(missing))
        matrix.add(record)


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    forget_own_programs()
    try:
        planned = plan(newest_of_index(TORCH))
        rows = choose_rows(planned, arguments.only) if arguments.only else planned
        check_place(arguments.output, rows)
        matrix = Matrix(arguments.output / "versions.json", "tests/by_hand/matrix/run")
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not own_machine.is_inside():
        matrix.begin(planned)
    missing = [row for row in rows if not (arguments.resume and matrix.has(row))]
    try:
        with end_as_by_ctrl_c():
            run_all(missing, arguments, matrix, console)
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with what {arguments.output} has")
        return INTERRUPTED
    if own_machine.is_inside():
        return 0
    return finish(arguments, rows, matrix, console)


def finish(arguments: argparse.Namespace, rows: Sequence[Row], matrix: Matrix, console: Console
           ) -> int:
    results = matrix.results()
    (arguments.output / "versions.md").write_text(text(results))
    if arguments.record:
        matrix.save(RECORDED)
        PAGE.write_text(put_into(PAGE.read_text(), results))
    console.print(rich_table(grid(results)))
    return 0 if all(results.rows[row].ended == PASSED for row in rows) else 1


def forget_own_programs() -> None:
    """The environment of this Python may be activated, and has an MPI: no row may find that."""
    own = Path(sys.executable).parent
    entries = [entry for entry in os.environ["PATH"].split(os.pathsep) if Path(entry) != own]
    os.environ["PATH"] = os.pathsep.join(entries)


def check_place(output: Path, rows: Sequence[Row]) -> None:
    """Raises Unusable where a machine of its own would have a folder in memory."""
    for name in own_machine.IN_MEMORY if any(row.mpi == DEBIAN for row in rows) else ():
        if Path(name) in (output.resolve(), *output.resolve().parents):
            raise Unusable(f"{output} is in {name}, which rows with {DEBIAN} have in memory; name "
                           "another folder")
