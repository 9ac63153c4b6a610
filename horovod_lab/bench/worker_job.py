"""One job of a benchmark: a program of workers/, run in one of several ways."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from horovod_lab.measuring import launch
from horovod_opt.settings import SettingsError, load

BASE = "off"  # what the modes are compared with
LIMIT = "no communication"
# Compared unless the user names others. Off is there with MPI's yielding as well, gs and nbcs
# without it: a reader has to see which part of a gain is whose.
MODES = "off,off+yield,gs,gs-yield,nbcs,nbcs-yield,scp,topo,topo+scp,auto"
# What may stand behind a mode in --modes: how that is called, and Open MPI's setting, which is
# otherwise 0 in off and 1 in all other modes.
MPI_YIELD = "OMPI_MCA_mpi_yield_when_idle"
SUFFIXES = {"+yield": ("yielding", "1"), "-yield": ("not yielding", "0")}
# Gs may be followed by a slash and the cycles between two agreements.
INTERVAL, EVERY = "HOROVOD_OPT_GS_INTERVAL", ", every "
WORKERS = Path(__file__).parent.resolve() / "workers"


def limit_and_base_first(series: str) -> int:
    """To sort names by, whichever was measured first."""
    return {LIMIT: 0, BASE: 1}.get(series, 2)


@dataclass(frozen=True)
class Series:
    """One way to run a workload. `mode` is HOROVOD_OPT_MODE; None is a Horovod that has none."""

    name: str
    mode: str | None = "off"
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    communicates: bool = True  # with Horovod
    arguments: Sequence[str] = ()  # for the program

    def fits(self, ranks: int, cores: int) -> bool:
        """Whether a host of so many cores is large enough: mode scp needs two cores a rank."""
        modes = (self.mode or "").split("+")
        return "scp" not in modes or not self.communicates or cores >= 2 * ranks

    def environ(self) -> dict[str, str]:
        environ = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **self.environment}
        if self.mode is None:
            environ = {name: value for name, value in environ.items()
                       if not name.startswith("HOROVOD_OPT_")}
        else:
            environ["HOROVOD_OPT_MODE"] = self.mode
        # horovodrun takes mpirun from the PATH: it has to be the one of the same environment.
        environ["PATH"] = f"{Path(self.python).parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
        return environ

    def commands(self, program: Sequence[str], ranks: int, launcher: Sequence[str] = ()
                 ) -> list[list[str]]:
        """One command for the launcher or, without communication, one for each process.

        `program` is a file of workers/, or any by its absolute path, and its arguments; `launcher`
        more options of horovodrun."""
        worker = [self.python, str(WORKERS / program[0]), *program[1:], *self.arguments]
        if self.communicates:
            horovodrun = str(Path(self.python).with_name("horovodrun"))
            return [[horovodrun, "-np", str(ranks), *launcher, *worker]]
        return [[*worker, "--rank", str(rank), "--ranks", str(ranks)] for rank in range(ranks)]


def of_modes(names: str) -> list[Series]:
    """A series for each mode of a list as in "off+yield,gs-yield,gs/10", other than off itself.

    Raises SettingsError."""
    series = {way.name: way for way in map(_of_mode, names.split(","))}
    return [way for name, way in series.items() if name != BASE]


def _of_mode(text: str) -> Series:
    suffix = next(filter(text.endswith, SUFFIXES), "")
    name, slash, cycles = (text.removesuffix(suffix) or text).partition("/")
    environment = {INTERVAL: cycles} if slash else {}
    settings = load({"HOROVOD_OPT_MODE": name, **environment})
    if slash and ("gs" not in settings.mode.split("+") or not cycles.strip()):
        raise SettingsError(f"{text}: a slash and a number of cycles follow gs only")
    label = f"{settings.mode}{EVERY}{settings.gs_interval}" if slash else settings.mode
    if not suffix:
        return Series(label, settings.mode, environment=environment)
    how, value = SUFFIXES[suffix]
    return Series(f"{label}, {how}", settings.mode, environment={**environment, MPI_YIELD: value})


def gs_interval(series: str) -> int | None:
    """Of a series of gs alone: the cycles between two agreements."""
    if series == "gs":
        return 1
    start, _, cycles = series.partition(EVERY)
    return int(cycles) if start == "gs" and cycles.isdecimal() else None


# Upstream tuned by hand, as far as Open MPI lets it.
YIELDING = _of_mode("off+yield")


def run(series: Series, program: Sequence[str], ranks: int, timeout: float,
        launcher: Sequence[str] = ()) -> dict:
    """The line of JSON that rank 0 of the program prints. `launcher`: more options of horovodrun,
    whose hosts have the same files.

    Raises:
        launch.JobFailed: see there; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as rendezvous:
        output = launch.execute(
            series.commands([*program, "--rendezvous", rendezvous], ranks, launcher),
            series.environ(), timeout)
    return parse_result(output)


def parse_result(output: str) -> dict:
    """The launcher may put the rank before each line, and its own messages between them."""
    for line in output.splitlines():
        start = line.find('{"workload"')
        if start >= 0:
            return json.JSONDecoder().raw_decode(line, start)[0]  # MPICH's prefix may follow it
    raise launch.JobFailed(f"ended without a result; its output was {output!r}")
