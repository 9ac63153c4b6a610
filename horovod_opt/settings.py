"""The settings: one table, from which the parser, the help, the docs and the C header come.

    python -m horovod_opt.settings              prints them
    python -m horovod_opt.settings --markdown   writes docs/use/settings.md
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

PREFIX = "HOROVOD_OPT_"
FUSION_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"  # upstream's

# Bits of HorovodOptSettings.mode; the order is the canonical one.
MODES = {"gs": 1, "nbcs": 2, "topo": 8, "scp": 4, "auto": 16}
OFF = "off"

# Read elsewhere: while the wheel is built, where plans and counters are written to, and whether
# the plans are all that a script is run for.
OTHER_SETTINGS = {PREFIX + name for name in ("UPSTREAM", "ANY_VERSION", "WITHOUT_HOROVOD", "PLANS",
                                            "PLANS_STOP", "STATS_JSON")}

VALID_MODES = (
    f"{OFF}, or {', '.join(MODES)}, or several of these joined by + "
    "(gs, nbcs and scp in any combination; topo+scp)"
)


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it, its value and the remedy."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of the table; for an integer, `minimum` and `maximum` are its bounds. `modes`: those
    in which it has an effect, if not in all. `is_path`: it names a folder, and C++ has no use for
    it."""

    field: str
    default: object
    help: str
    unit: str
    minimum: int | None
    maximum: int | None
    modes: tuple[str, ...]
    is_path: bool

    @property
    def name(self) -> str:
        return PREFIX + self.field.upper()

    @property
    def valid(self) -> str:
        """The accepted values in words."""
        if self.is_path:
            return "a folder that every rank may write to; it is made"
        if self.minimum is None:
            return VALID_MODES
        if (self.minimum, self.maximum) == (0, 1):
            return "0 or 1"
        return f"{self.minimum} to {self.maximum}" + (f" {self.unit}" if self.unit else "")

    def parse(self, text: str) -> object:
        """The value that the environment's `text` stands for; empty means the default."""
        text = text.strip()
        if not text:
            return self.default
        if self.is_path:
            return self._parse_path(text)
        if self.minimum is None or self.maximum is None:
            return _parse_modes(text)
        return self._parse_integer(text, self.minimum, self.maximum)

    def _parse_path(self, text: str) -> str:
        if text.isprintable():  # the ranks compare lines of text
            return text
        raise SettingsError(
            f"{self.name}={_quote(text)} has a character that cannot be printed. Valid: "
            f"{self.valid}; unset it for none."
        )

    def _parse_integer(self, text: str, minimum: int, maximum: int) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            problem = "is not a whole number"
        elif minimum <= int(text) <= maximum:
            return int(text)
        else:
            problem = "is out of bounds"
        raise SettingsError(
            f"{self.name}={_quote(text)} {problem}. Valid: {self.valid}; "
            f"unset it for the default, {self.default}."
        )


def _setting(
    default: object,
    help: str,
    unit: str = "",
    bounds: tuple[int | None, int | None] = (None, None),
    modes: tuple[str, ...] = (),
    is_path: bool = False,
) -> Any:
    metadata = {
        "help": help, "unit": unit, "minimum": bounds[0], "maximum": bounds[1], "modes": modes,
        "is_path": is_path,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one process: the one table that defines them."""

    mode: str = _setting(
        OFF,
        "What the background thread does differently. gs (global sleep): all ranks sleep equally "
        "long. nbcs (nonblocking cache synchronization): who waits for others sleeps instead of "
        "spinning in MPI. scp (static core partitioning): it has a core of the rank for itself. "
        "topo (graph topology): tensors are ordered and fused as precomputed from the framework's "
        "graph, without negotiation. auto: topo, with scp where every rank has at least 4 cores.",
    )
    gs_interval: int = _setting(
        1,
        "gs: the ranks agree on their shortest sleep once in this many cycles.",
        "cycles",
        (1, 1_000_000),
        modes=("gs",),
    )
    nbcs_yields: int = _setting(
        0,
        "nbcs and topo: how often a rank only yields its core between tests of an unfinished "
        "collective before it sleeps between them.",
        "tests",
        (0, 1_000_000),
        modes=("nbcs", "topo"),
    )
    nbcs_sleep_min_us: int = _setting(
        20,
        "nbcs and topo: the first sleep between two tests of an unfinished collective; each "
        "further one is twice as long.",
        "us",
        (1, 1_000_000),
        modes=("nbcs", "topo"),
    )
    nbcs_sleep_max_us: int = _setting(
        500,
        "nbcs and topo: the longest sleep between two tests; not below "
        "HOROVOD_OPT_NBCS_SLEEP_MIN_US.",
        "us",
        (1, 1_000_000),
        modes=("nbcs", "topo"),
    )
    scp_core: int = _setting(
        -1,
        "scp: which of the rank's cores the background thread gets; 0 is the first, -1 the last.",
        "",
        (-65_536, 65_535),
        modes=("scp",),
    )
    heartbeat_ms: int = _setting(
        100,
        "topo: after so long without a request the ranks negotiate all the same, to notice one "
        "that has ended. On several nodes: after ten times as long over TCP, and sooner by MPI, "
        "to notice requests of other nodes.",
        "ms",
        (1, 60_000),
        modes=("topo",),
    )
    node_ranks: int = _setting(
        0,
        "topo, torch.distributed: at most so many ranks of a node reduce through one shared "
        "memory, for example those of a socket; these groups then reduce as nodes do. 0: all "
        "ranks of the node.",
        "ranks",
        (0, 65_536),
        modes=("topo",),
    )
    message_memory_mb: int = _setting(
        64,
        "topo: a rank's memory for messages between nodes, beyond 1 MiB for each bucket on its "
        "way; with less, fewer chunks of a bucket are on their way at a time.",
        "MiB",
        (0, 1_048_576),
        modes=("topo",),
    )
    tcp_messages: int = _setting(
        1,
        "topo: 1: under MPI, messages between nodes go over TCP connections of their own if that "
        "is faster in a trial in hvd.init(). 0: always by MPI. Under Gloo they always go over TCP.",
        "",
        (0, 1),
        modes=("topo",),
    )
    shared_memory: int = _setting(
        1,
        "topo: 0: planned tensors in main memory are reduced by Horovod's own operations (MPI, "
        "Gloo, oneCCL), as those on GPUs are, instead of through shared memory.",
        "",
        (0, 1),
        modes=("topo",),
    )
    recut: int = _setting(
        1,
        "topo: 1: after a few planned iterations the ranks rebuild a plan's buckets by the times "
        "at which its tensors arrive, as rebuild_buckets in PyTorch's DDP does by their order. 0: "
        "the buckets stay as they follow from the graph.",
        "",
        (0, 1),
        modes=("topo",),
    )
    verify: int = _setting(
        0,
        "topo: 1: before each bucket that Horovod's own operations reduce, as on GPUs, all ranks "
        "compare plan, iteration and tensors; a difference ends the job on every rank, with what "
        "each had; to search for faults. All other buckets are always compared, at no cost.",
        "",
        (0, 1),
        modes=("topo",),
    )
    deterministic: int = _setting(
        0,
        "1: two runs of a job that do the same are equal bit for bit: each tensor is reduced by "
        "itself, by Horovod's own operations, in every step, whatever arrives with it. The sums "
        "are those of mode off with HOROVOD_FUSION_THRESHOLD=0. Slower with many small tensors. "
        "Not with HOROVOD_AUTOTUNE.",
        "",
        (0, 1),
    )
    as_gloo: int = _setting(
        0,
        "torch.distributed: 1: a process group of gloo, also one that gets gloo because the "
        "program names no backend, performs the calls for tensors in main memory as hvdopt does. "
        "It still calls itself gloo. To be set before PyTorch is imported.",
        "",
        (0, 1),
    )
    stats: int = _setting(
        0,
        "1: print a table of all ranks' counters at shutdown.",
        "",
        (0, 1),
    )
    stats_folder: str = _setting(
        "",
        "Every rank appends its counters to rank-R.jsonl in this folder, as a line of JSON, by the "
        "interval and at shutdown. Empty: none does.",
        is_path=True,
    )
    stats_interval_ms: int = _setting(
        1000,
        "The time from one such line of a rank to its next one.",
        "ms",
        (10, 3_600_000),
    )
    timeline_ranks: int = _setting(
        0,
        "1: every rank writes the timeline that HOROVOD_TIMELINE=FILE has of rank 0, rank 1 into "
        "FILE.rank-1, with what it waited for, buckets and input; `horovod-opt trace` makes one "
        "trace of them.",
        "",
        (0, 1),
    )

    @property
    def mode_bits(self) -> int:
        """The mode as the native side knows it."""
        return sum(bit for mode, bit in MODES.items() if mode in self.mode.split("+"))

    @property
    def plans(self) -> bool:
        """Whether a rank may plan tensors: in topo, and in auto, which is topo or topo+scp."""
        return not {"topo", "auto"}.isdisjoint(self.mode.split("+"))

    @property
    def text(self) -> str:
        """Canonical lines, which the ranks compare."""
        return "".join(f"{row.name}={getattr(self, row.field)}\n" for row in TABLE)


TABLE = tuple(
    Setting(field=field.name, default=field.default, **field.metadata)
    for field in dataclasses.fields(Settings)
)


def mode_name(bits: int) -> str:
    """The mode that the native side's `bits` stand for."""
    return "+".join(mode for mode, bit in MODES.items() if bits & bit) or OFF


def load(environ: Mapping[str, str]) -> Settings:
    """Settings from environment variables. Raises SettingsError that lists all problems."""
    problems = _find_misspelt(environ)
    values: dict[str, Any] = {}
    for row in TABLE:
        try:
            values[row.field] = row.parse(environ.get(row.name, ""))
        except SettingsError as error:
            problems.append(str(error))
    if not problems:
        settings = Settings(**values)
        problems = _contradictions(settings, environ)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def ineffective(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Names of the settings given in `environ` that belong to a mode that is not on."""
    modes = settings.mode.split("+")
    if "auto" in modes:
        modes = ["topo", "scp"]
    return [
        row.name
        for row in TABLE
        if row.modes and not set(row.modes) & set(modes) and environ.get(row.name, "").strip()
    ]


def fusion_threshold(environ: Mapping[str, str]) -> int | None:
    """The size of a bucket of several tensors in bytes, as upstream's setting has it; None: not
    set. Raises SettingsError for what is no number of bytes: upstream reads the digits that it
    begins with, 64MB as 64 bytes."""
    text = environ.get(FUSION_THRESHOLD, "").strip()
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    size = re.fullmatch(r"([0-9]{1,9}) ?([kmg])i?b?", text.lower())
    number = int(size[1]) << {"k": 10, "m": 20, "g": 30}[size[2]] if size else 64 << 20
    raise SettingsError(
        f"{FUSION_THRESHOLD}={_quote(text)} is not a whole number of bytes. Valid: 0 or more, "
        f"without a unit, such as {number} for {size[0].upper() if size else '64 MiB'}; unset it "
        "for the mode's default."
    )


def _quote(value: str) -> str:
    return ascii(value if len(value) <= 60 else value[:57] + "...")


def _did_you_mean(word: str, words: list[str]) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _parse_modes(text: str) -> str:
    def error(problem: str) -> SettingsError:
        return SettingsError(f"{PREFIX}MODE={_quote(text)}: {problem} Valid: {VALID_MODES}.")

    parts = [part.strip().lower() for part in text.split("+")]
    for part in parts:
        if not part:
            raise error("a mode is missing beside the '+'.")
        if part != OFF and part not in MODES:
            hint = _did_you_mean(part, [OFF, *MODES])
            raise error(f"{_quote(part)} is not a mode.{hint}")
        if parts.count(part) > 1:
            raise error(f"'{part}' is named more than once.")
    for alone in (OFF, "auto"):
        if alone in parts:
            if len(parts) > 1:
                raise error(f"'{alone}' combines with no other mode.")
            return alone
    for mode in ("gs", "nbcs"):
        if "topo" in parts and mode in parts:
            raise error(f"'{mode}' does not combine with 'topo', which has no cycles to pace.")
    return "+".join(mode for mode in MODES if mode in parts)


def _find_misspelt(environ: Mapping[str, str]) -> list[str]:
    names = [row.name for row in TABLE]
    return [
        f"{name}={_quote(environ[name])}: there is no such setting."
        f"{_did_you_mean(name, names)} Valid: {', '.join(names)}. Unset it."
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in names and name not in OTHER_SETTINGS
    ]


def _contradictions(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    problems = []
    if settings.mode != OFF:  # which is upstream's, with its way to read numbers
        try:
            fusion_threshold(environ)
        except SettingsError as error:
            problems.append(str(error))
    tunes = environ.get("HOROVOD_AUTOTUNE", "").strip()
    if settings.deterministic and tunes not in ("", "0"):
        problems.append(
            f"{PREFIX}DETERMINISTIC=1 and HOROVOD_AUTOTUNE={_quote(tunes)}: the tuner fuses "
            "tensors by what it measures, in no two runs alike. Unset one of them."
        )
    if settings.nbcs_sleep_min_us > settings.nbcs_sleep_max_us:
        low, high = (row for row in TABLE if row.field.startswith("nbcs_sleep"))
        problems.append(
            f"{low.name}={settings.nbcs_sleep_min_us} is greater than "
            f"{high.name}={settings.nbcs_sleep_max_us} (defaults: {low.default} and {high.default} "
            "us). Lower the first or raise the second."
        )
    return problems


def help_text() -> str:
    """The table for a terminal."""
    blocks = ["Settings of horovod-opt: environment variables of every rank.\n"]
    for row in TABLE:
        blocks.append(
            f"{row.name}   default {row.default}\n"
            + textwrap.fill(row.help, 96, initial_indent="    ", subsequent_indent="    ")
            + "\n"
            + textwrap.fill(
                f"Valid: {row.valid}.", 96, initial_indent="    ", subsequent_indent="    "
            )
            + "\n"
        )
    return "\n".join(blocks)


def markdown() -> str:
    """The text of docs/use/settings.md."""
    lines = [
        (
            "<!-- Written by `python -m horovod_opt.settings --markdown`; "
            "edit horovod_opt/settings.py instead. -->"
        ),
        "",
        "# Settings",
        "",
        "Environment variables, read in `hvd.init()`; equal on all ranks: `horovodrun` carries the",
        "shell's to every rank. Case and blanks around a value do not matter; empty means the",
        f"default. An invalid value, an unknown `{PREFIX}` name or a difference between ranks",
        "makes `hvd.init()` fail on every rank with a `horovod_opt.SettingsError` that says what",
        "to change.",
        "",
        "| setting | default | valid | meaning |",
        "| --- | --- | --- | --- |",
        *(f"| `{row.name}` | {f'`{row.default}`' if row.default != '' else ''} | {row.valid} "
          f"| {row.help} |" for row in TABLE),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--markdown"]):
        sys.exit("usage: python -m horovod_opt.settings [--markdown]")
    print(markdown() if sys.argv[1:] else help_text(), end="")
