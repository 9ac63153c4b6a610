"""Trials: a job's program, settings and faults, wholly determined by a seed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple, Optional

from drawing import DEFAULT_KINDS, Draw, phase
from programs import Calls, Leave, Phase, Training, Uneven

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
# Ranks that have left a step and wait elsewhere are known to have left it after half of it.
STALL_OF_LEAVES = {**STALL_SECONDS, "HOROVOD_STALL_CHECK_TIME_SECONDS": "2"}
STALL_ENDS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3"}


class Fault(NamedTuple):
    """What goes wrong on `rank`: in call `turn` of that phase, before the collective at `place`."""

    kind: str
    rank: int
    phase: int
    turn: int
    place: int


class Round(NamedTuple):
    """Between a hvd.init() and its hvd.shutdown(). `late`: a rank that is often some ms behind;
    `flushes`: one whose thread makes zeros of denormals."""

    mode: str
    settings: dict[str, str]
    phases: tuple[Phase, ...]
    late: int
    fault: Optional[Fault]
    flushes: int = -1


class Trial(NamedTuple):
    """A job under horovodrun."""

    seed: int
    framework: str
    controller: str
    ranks: int
    settings: dict[str, str]
    rounds: tuple[Round, ...]
    groups: bool = False  # several, in each round
    kinds: tuple[str, ...] = DEFAULT_KINDS

    def describe(self) -> str:
        return (f"{self.framework}, {self.controller}, {self.ranks} ranks{_list(self.settings)}: "
                + "; ".join(_words(round_) for round_ in self.rounds))


def trial(seed: int, groups: bool = False, kinds: Iterable[str] = DEFAULT_KINDS) -> Trial:
    """`groups`: of those in mode topo whose ranks form several groups. `kinds`: of KINDS, what
    programs have."""
    random = Random(seed)
    framework, controller = random.choice(FRAMEWORKS), random.choice(CONTROLLERS)
    ranks = random.choice([number for number in RANKS if number > 1 or not groups])
    settings = _some(random, UPSTREAM)
    may_join = random.random() < 0.4
    if may_join:  # of which upstream's cache does not know enough
        settings["HOROVOD_CACHE_CAPACITY"] = "0"
    last = random.randint(3, 8) - 1
    draw = Draw(random, framework, ranks, False, frozenset(kinds))
    rounds = tuple(_round(draw, "topo" if groups else random.choice(MODES), may_join,
                          number == last) for number in range(last + 1))
    if groups:
        rounds = tuple(_in_groups(random, ranks, plain) for plain in rounds)
    return Trial(seed, framework, controller, ranks, settings, rounds, groups, tuple(kinds))


def _in_groups(random: Random, ranks: int, round_: Round) -> Round:
    of_a_group = random.choice(["1", "2"]) if ranks == 4 else "1"
    settings = {name: value for name, value in round_.settings.items()
                if name.startswith("HOROVOD_STALL") or name in OF_MODE["topo"]}
    settings.pop("HOROVOD_OPT_SHARED_MEMORY", None)
    settings |= {"HOROVOD_OPT_NODE_RANKS": of_a_group,
                 "HOROVOD_OPT_TCP_MESSAGES": random.choice(["0", "1"])}
    return round_._replace(settings=settings)


def _some(random: Random, possible: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: random.choice(values) for name, values in possible.items()
            if random.random() < 0.25}


def _round(draw: Draw, mode: str, may_join: bool, is_last: bool) -> Round:
    random, ranks = draw.random, draw.ranks
    parts = ("topo", "scp") if mode == "auto" else mode.split("+")
    draw = draw._replace(plans="topo" in parts)
    phases = tuple(phase(draw, may_join) for _ in range(random.randint(1, 3)))
    settings = {}
    for part in parts:
        settings.update(_some(random, OF_MODE.get(part, {})))
    fault = None
    if ranks > 1 and draw.chance(0.2):
        kinds = (*HARMLESS, *ENDS_ROUND, *REFUSED, *ENDS_JOB * is_last)
        fault = _fault(random, ranks, phases, kinds)
    stall = STALL_ENDS if fault and fault.kind == "never" else STALL_SECONDS
    if stall is STALL_SECONDS and any(leaves_of(each) for each in phases):
        stall = STALL_OF_LEAVES
    late, flushes = random.randint(-ranks, ranks - 1), random.randint(-ranks, ranks - 1)
    return Round(mode, {**stall, **settings}, phases, late, fault, flushes)


def leaves_of(phase: Phase) -> tuple[Leave, ...]:
    return () if isinstance(phase, Uneven) else phase.leaves


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
             ", ".join((f"{len(phase.threads)} threads" if isinstance(phase, Calls)
                        and len(phase.threads) > 1 else names[type(phase)])
                       + " that ranks leave" * bool(leaves_of(phase))
                       for phase in round_.phases)]
    if fault := round_.fault:
        words.append(f"{fault.kind} on rank {fault.rank} in phase {fault.phase}")
    return ", ".join(words)


def _list(settings: dict[str, str]) -> str:
    words = [f"{name.replace('HOROVOD_', '')}={value}"
             for name, value in settings.items() if "STALL" not in name]
    return f" ({' '.join(words)})" if words else ""
