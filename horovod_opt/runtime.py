"""What the patched Horovod calls at hvd.init() and hvd.shutdown(), and stats()."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from horovod_opt import counters, stats_lines, xla
from horovod_opt.launcher import built, slurm_step
from horovod_opt.native import header, prototypes, structs
from horovod_opt.native.plan_text import PlanStatus, parse_status
from horovod_opt.planning import plan_folder, pytorch_gradients
from horovod_opt.planning.planner import Planner
from horovod_opt.settings import Settings, SettingsError, load

# A rank that still blocks in MPI, mostly to move data, offers its core to others whenever it looks:
# Open MPI reads this when it starts. A value that the user has set wins. MPICH does so by itself.
MPI_YIELD = ("OMPI_MCA_mpi_yield_when_idle", "1")

# Upstream has operations of its own for XLA, to which plans give no keys.
NEVER_BY_XLA = ("HOROVOD_ENABLE_XLA_OPS=1: tensors of what TensorFlow compiles by XLA are "
                "negotiated and never reach their plan")

# Names a file for the counters of all ranks at shutdown, besides or instead of the table.
STATS_JSON = "HOROVOD_OPT_STATS_JSON"


@dataclasses.dataclass
class _Native:
    """A framework's native library after its hvd.init()."""

    lib: ctypes.CDLL
    settings: Settings
    table: bool = True  # whether the counters are printed, once they were gathered
    is_reported: bool = False
    lines: stats_lines.StatsLines | None = None


# By framework; the one initialised last comes last.
_libraries: dict[str, _Native] = {}
has_spans = False  # whether a library of them writes a timeline on every rank


def framework_of(lib: ctypes.CDLL) -> str:
    """The framework, from a path like .../horovod/torch/mpi_lib_v2.so."""
    return Path(lib._name).parent.name


def check_abi(lib: ctypes.CDLL) -> None:
    """Raises ImportError unless `lib` was built with this package's structs and prototypes."""
    prototypes.check(lib, header.HASH)


def configure(lib: ctypes.CDLL) -> None:
    """Hands the settings to the native side, before it initialises Horovod.

    Settings that cannot be used are handed over as a text instead of raised, so that
    this rank takes part in the initialisation and tells the others: every rank then
    fails, and none hangs.
    """
    check_abi(lib)
    prototypes.declare(lib)
    settings, error = Settings(), b""
    try:
        settings = load(os.environ)
        if settings.stats_folder:
            stats_lines.make_folder(settings.stats_folder)
    except SettingsError as problem:
        error = str(problem).encode(errors="backslashreplace")
    if settings.mode_bits:
        os.environ.setdefault(*MPI_YIELD)
    table = True
    if os.environ.get(STATS_JSON):
        table = bool(settings.stats)
        settings = dataclasses.replace(settings, stats=1)
    # In mode off the ranks say nothing to each other that upstream's do not.
    build = f"horovod-opt={built.identity()}\n" if settings.mode_bits else ""
    lib.horovod_opt_configure(structs.to_native(settings), (settings.text + build).encode(), error)

    framework = framework_of(lib)
    before = _libraries.pop(framework, None)
    # A second hvd.init() while Horovod runs changes nothing.
    lines = before.lines if before is not None else None
    _libraries[framework] = _Native(lib, settings, table, lines=lines)
    global has_spans
    has_spans = any(native.settings.timeline_ranks for native in _libraries.values())
    if settings.plans and plan_folder.stops_before_step():
        plan_folder.announce()
    if framework == "tensorflow" and settings.plans:
        _capture_graphs(lib)
    elif framework == "torch":
        # An earlier start may have been in another mode, and that on some ranks only.
        pytorch_gradients.planner = Planner(lib) if settings.plans else None


@functools.lru_cache(maxsize=None)
def _capture_graphs(lib: ctypes.CDLL) -> None:
    """From now on, TensorFlow's graphs are planned before they first run."""
    from horovod_opt.planning import tensorflow_hooks

    planner = Planner(lib)
    before_step = plan_folder.stop if plan_folder.stops_before_step() else None
    capture = tensorflow_hooks.Capture(planner, os.environ.get(plan_folder.PLANS, ""), before_step)
    tensorflow_hooks.install(capture)


def raise_init_error(lib: ctypes.CDLL) -> None:
    """Raises SettingsError if the ranks could not agree on the settings."""
    text = lib.horovod_opt_init_error().decode(errors="replace")
    if text:
        raise SettingsError(text)


def begin(lib: ctypes.CDLL) -> None:
    """Horovod has been initialised: counters are written by interval from now on, where
    HOROVOD_OPT_STATS_FOLDER says so."""
    native = _libraries[framework_of(lib)]
    if native.settings.stats_folder and native.lines is None:
        native.lines = stats_lines.StatsLines(
            Path(native.settings.stats_folder), native.settings.stats_interval_ms / 1e3,
            framework_of(lib), lambda: stats(framework_of(lib)))


def add_input_span(name: str, begin: int, end: int) -> None:
    """A span of the input side in this rank's timeline, where every rank has one; the time is that
    of time.monotonic_ns()."""
    for native in _libraries.values():
        native.lib.horovod_opt_timeline_span(b"input", name.encode(), begin, end)


def warn_if_alone(size: int) -> None:
    """Says so, in one line on stderr, if the tasks of a Slurm step are each a job of one rank, for
    which Horovod has no error. `size` are the ranks of the job."""
    text = slurm_step.alone(size, os.environ)
    if text:
        print(f"horovod-opt: {text}", file=sys.stderr, flush=True)


def report(lib: ctypes.CDLL) -> None:
    """After a shutdown: appends the last line of counters, prints the table of all ranks to stderr,
    once, where they were gathered, and writes them to the file that HOROVOD_OPT_STATS_JSON
    names."""
    native = _libraries.get(framework_of(lib))
    if native is None:
        return
    if native.lines is not None:
        native.lines.end()
        native.lines = None
    if native.is_reported:
        return
    ranks = lib.horovod_opt_gathered_ranks()
    if ranks == 0:
        return
    native.is_reported = True
    stats = [_read_gathered(lib, rank) for rank in range(ranks)]
    if os.environ.get(STATS_JSON):
        _write(stats, Path(os.environ[STATS_JSON]))
    if native.table:
        from horovod_opt import stats_table

        stats_table.show(stats, sys.stderr)


def _write(stats: Sequence[counters.Stats], path: Path) -> None:
    """At once or not at all: somebody may read it while the job ends."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(json.dumps([dataclasses.asdict(rank) for rank in stats]) + "\n")
        temporary.replace(path)
    except OSError as error:
        print(f"horovod-opt: {STATS_JSON}={path} cannot be written: {error.strerror}",
              file=sys.stderr, flush=True)


def _read_gathered(lib: ctypes.CDLL, rank: int) -> counters.Stats:
    out = structs.NativeStats()
    if lib.horovod_opt_gathered_stats(rank, ctypes.byref(out)) != 0:
        raise RuntimeError(f"the counters of rank {rank} were not gathered")
    return structs.from_native(out)


def _read(framework: str | None, function: str) -> tuple[_Native, ctypes.Structure]:
    """The native library of the framework, for `function` of this package, and its counters."""
    out = structs.NativeStats()
    name = framework or next(reversed(_libraries), None)
    native = _libraries.get(name or "")
    if native is None or native.lib.horovod_opt_stats(ctypes.byref(out)) != 0:
        raise ValueError(
            f"horovod_opt.{function}({'' if framework is None else repr(framework)}) needs "
            "hvd.init() first; initialised in this process: "
            f"{', '.join(_libraries) or 'nothing'}." + _foreign_horovod()
        )
    return native, out


def stats(framework: str | None = None) -> counters.Stats:
    input_side = sys.modules.get("horovod_opt.io.totals")
    if input_side is not None:
        input_side.refresh()
    _, out = _read(framework, "stats")
    return structs.from_native(out)


def set_input(values: Mapping[str, float]) -> None:
    """What stats() and the table say of the input side: the counters whose names begin with
    input_, since the process began."""
    out = structs.NativeStats(**values)
    for native in _libraries.values():
        native.lib.horovod_opt_set_input(ctypes.byref(out))


def plans(framework: str | None = None) -> list[PlanStatus]:
    """The plans of this rank and what has become of them, in mode topo; see PlanStatus.

    `framework` as in stats(). Empty in another mode. Raises ValueError before hvd.init()."""
    native, _ = _read(framework, "plans")
    statuses = parse_status(native.lib.horovod_opt_plans().decode())
    if framework_of(native.lib) != "tensorflow" or not xla.is_enabled():
        return statuses
    return [dataclasses.replace(plan, reason=NEVER_BY_XLA)
            if plan.state == "warming up" and not plan.reason else plan for plan in statuses]


stats.__doc__ = f"""The counters of this rank since hvd.init(), during the run or after shutdown.

    Cheap: reads what the background thread has written, and its CPU time from the kernel.

    `framework` is "tensorflow", "torch" or "mxnet"; by default the one initialised last.
    Returns a frozen dataclass, horovod_opt.Stats, with these fields:

{counters.describe("        ")}
    Raises ValueError before hvd.init().
    """


def _foreign_horovod() -> str:
    from horovod_opt.guard import MARK

    horovod = sys.modules.get("horovod")
    version = getattr(horovod, "__version__", MARK)
    if MARK in version:
        return ""
    return f" The horovod imported here, {version}, is not the one of horovod-opt."
