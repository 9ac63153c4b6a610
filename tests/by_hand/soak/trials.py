"""Trials: a job's program, settings and faults, wholly determined by a seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Optional

from programs import Calls, Phase, Training, Uneven, phase

FRAMEWORKS = ("tensorflow", "torch")
CONTROLLERS = ("mpi", "gloo")
RANKS = (1, 2, 2, 2, 3, 3, 4)
# Where there are too few cores for scp, hvd.init() refuses it.
MODES = ("off", "gs", "nbcs", "gs+nbcs", "auto", "scp", "nbcs+scp", "topo+scp", *("topo",) * 12)

# What goes on as if nothing had happened, what ends a round with an error and the next one begins
# anew, what ends the job, and what ends hvd.init().
HARMLESS, ENDS_ROUND, ENDS_JOB, REFUSED = (
    ("late", "stopped"), ("raise", "shutdown", "never"), ("killed",), ("disagree",))

# Upstream's, one choice for all rounds of a trial.
UPSTREAM = {
    "HOROVOD_FUSION_THRESHOLD": ("0", "64", "4096", "262144"),
    "HOROVOD_CYCLE_TIME": ("0.1", "5", "20"),
    "HOROVOD_CACHE_CAPACITY": ("0",),
    "HOROVOD_AUTOTUNE": ("1",),
    "HOROVOD_DISABLE_GROUP_FUSION": ("1",),
}
OF_MODE = {
    "gs": {"HOROVOD_OPT_GS_INTERVAL": ("3", "50")},
    "nbcs": {"HOROVOD_OPT_NBCS_YIELDS": ("5",), "HOROVOD_OPT_NBCS_SLEEP_MIN_US": ("1", "500")},
    "scp": {"HOROVOD_OPT_SCP_CORE": ("0",)},
    "topo": {
        "HOROVOD_OPT_NODE_RANKS": ("1", "2"),
        "HOROVOD_OPT_SHARED_MEMORY": ("0",),
        "HOROVOD_OPT_RECUT": ("0",),
        "HOROVOD_OPT_HEARTBEAT_MS": ("1", "5", "60000"),
        "HOROVOD_OPT_VERIFY": ("1", "1"),
    },
}
# Upstream's inspector; "never" waits for it.
STALL_SECONDS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "20",
                 "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0"}
STALL_ENDS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3"}


class Fault(NamedTuple):
    """What goes wrong on `rank`: in call `turn` of that phase, before the collective at `place`."""

    kind: str
    rank: int
    phase: int
    turn: int
    place: int


class Round(NamedTuple):
    """Between a hvd.init() and its hvd.shutdown(). `late`: a rank that is often some ms behind."""

    mode: str
    settings: dict[str, str]
    phases: tuple[Phase, ...]
    late: int
    fault: Optional[Fault]


class Trial(NamedTuple):
    """A job under horovodrun."""

    seed: int
    framework: str
    controller: str
    ranks: int
    settings: dict[str, str]
    rounds: tuple[Round, ...]
    groups: bool = False  # several, in each round

    def describe(self) -> str:
        return (f"{self.framework}, {self.controller}, {self.ranks} ranks{_list(self.settings)}: "
                + "; ".join(_words(round_) for round_ in self.rounds))


def trial(seed: int, groups: bool = False) -> Trial:
    """`groups`: of those in mode topo whose ranks form several groups."""
    random = Random(seed)
    framework, controller = random.choice(FRAMEWORKS), random.choice(CONTROLLERS)
    ranks = random.choice([number for number in RANKS if number > 1 or not groups])
    settings = _some(random, UPSTREAM)
    may_join = random.random() < 0.4
    if may_join:  # of which upstream's cache does not know enough
        settings["HOROVOD_CACHE_CAPACITY"] = "0"
    last = random.randint(3, 8) - 1
    rounds = tuple(_round(random, framework, ranks, may_join, number == last)
                   for number in range(last + 1))
    if groups:
        rounds = tuple(_in_groups(random, ranks, plain) for plain in rounds)
    return Trial(seed, framework, controller, ranks, settings, rounds, groups)


def _in_groups(random: Random, ranks: int, round_: Round) -> Round:
    of_a_group = random.choice(["1", "2"]) if ranks == 4 else "1"
    settings = {name: value for name, value in round_.settings.items()
                if name.startswith("HOROVOD_STALL") or name in OF_MODE["topo"]}
    settings.pop("HOROVOD_OPT_SHARED_MEMORY", None)
    settings |= {"HOROVOD_OPT_NODE_RANKS": of_a_group,
                 "HOROVOD_OPT_TCP_MESSAGES": random.choice(["0", "1"])}
    return round_._replace(mode="topo", settings=settings)


def _some(random: Random, possible: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: random.choice(values) for name, values in possible.items()
            if random.random() < 0.25}


def _round(random: Random, framework: str, ranks: int, may_join: bool, is_last: bool) -> Round:
    mode = random.choice(MODES)
    phases = tuple(phase(random, framework, ranks, may_join)
                   for _ in range(random.randint(1, 3)))
    settings = {}
    for part in ("topo", "scp") if mode == "auto" else mode.split("+"):
        settings.update(_some(random, OF_MODE.get(part, {})))
    fault = None
    if ranks > 1 and random.random() < 0.2:
        kinds = (*HARMLESS, *ENDS_ROUND, *REFUSED, *ENDS_JOB * is_last)
        fault = _fault(random, ranks, phases, kinds)
    stall = STALL_ENDS if fault and fault.kind == "never" else STALL_SECONDS
    return Round(mode, {**stall, **settings}, phases, random.randint(-ranks, ranks - 1), fault)


def _fault(random: Random, ranks: int, phases: tuple[Phase, ...], kinds: tuple[str, ...]) -> Fault:
    rank, number = random.randrange(ranks), random.randrange(len(phases))
    turns = turns_of(phases[number], rank)
    return Fault(random.choice(kinds), rank, number, random.randrange(turns), random.randrange(7))


def turns_of(phase: Phase, rank: int) -> int:
    """How often the first thread of `rank` calls something."""
    if isinstance(phase, Calls):
        return len(phase.threads[0])
    if isinstance(phase, Uneven):
        return phase.calls_of_rank[rank] + phase.after
    return phase.steps_of_rank[rank] + phase.after


def _words(round_: Round) -> str:
    names = {Calls: "calls", Uneven: "join", Training: "training"}
    words = [round_.mode + _list(round_.settings),
             ", ".join(f"{len(phase.threads)} threads" if isinstance(phase, Calls)
                       and len(phase.threads) > 1 else names[type(phase)]
                       for phase in round_.phases)]
    if fault := round_.fault:
        words.append(f"{fault.kind} on rank {fault.rank} in phase {fault.phase}")
    return ", ".join(words)


def _list(settings: dict[str, str]) -> str:
    words = [f"{name.replace('HOROVOD_', '')}={value}"
             for name, value in settings.items() if "STALL" not in name]
    return f" ({' '.join(words)})" if words else ""
