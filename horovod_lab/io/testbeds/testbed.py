"""What a testbed is to a suite: storage with the speed of its kind, and nodes that read from it.
And the least of them, a warm page cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Optional

from horovod_opt.arguments import Refusal

QUARTER = 0.25


class NoTestbed(Refusal):
    """What this machine lacks for a testbed, and the remedy."""


@dataclass(frozen=True)
class Counters:
    """What the storage has done; None where that cannot be counted.

    `requests` and `bytes` that were read; `inversions`: those of the requests that begin before the
    last one of the same file, whichever node had that; `metadata_requests`: for names, attributes,
    opened files and lists of folders; `server_cpu_seconds`: CPU time of the storage itself, which
    real storage would not take from these cores."""

    requests: Optional[int] = None
    bytes: Optional[int] = None
    inversions: Optional[int] = None
    metadata_requests: Optional[int] = None
    server_cpu_seconds: Optional[float] = None

    def since(self, earlier: Counters) -> Counters:
        """What was done after `earlier`."""
        before = asdict(earlier)
        return Counters(**{name: None if now is None else now - before[name]
                           for name, now in asdict(self).items()})


class Testbed:
    """Storage, and simulated nodes. A `with` makes it, cold, and removes it.

    The processes of a node see the data in its own folder, at the testbed's speed: all nodes have
    the same paths. Other processes see that folder as it is.

    Args:
        folder: the prepared data.
        nodes: how many.
        share: of the data's size, that each node may hold in memory beside what its processes hold
            when begin() is called; its page cache is part of that.
    """

    name: ClassVar[str]
    speed: ClassVar[Mapping[str, float]] = {}  # what results depend on, by names with units

    def __init__(self, folder: Path, nodes: int = 1, share: float = QUARTER):
        self.folder, self.nodes, self.share = folder.resolve(), nodes, share

    @classmethod
    def check(cls, nodes: int) -> None:
        """Raises NoTestbed where it cannot be made for so many nodes."""
        raise NotImplementedError

    @property
    def memory(self) -> Optional[int]:
        """Bytes that `share` amounts to; None where memory has no limit."""
        return int(self.share * sum(path.stat().st_size for path in self.folder.rglob("*")
                                    if path.is_file()))

    def __enter__(self) -> Testbed:
        """Raises NoTestbed, or OSError if something that should work fails."""
        self.check(self.nodes)
        with ExitStack() as stack:
            self._make(stack)
            self._removal = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._removal.close()

    def _make(self, stack: ExitStack) -> None:
        """Makes it; `stack` gets what removes it again."""
        raise NotImplementedError

    def command(self, node: int, argv: Sequence[str], network: bool = True) -> list[str]:
        """What runs `argv` as a process of this node (from 0 on), started by a child of the caller
        or itself: in its memory limit, and in its network, which has the address of `eth0`. Without
        `network` it stays in that of the caller."""
        raise NotImplementedError

    def begin(self) -> None:
        """From here on memory is limited, and counters count from 0."""
        raise NotImplementedError

    def counters(self) -> Counters:
        """Since begin()."""
        raise NotImplementedError

    def count_memory_kills(self) -> int:
        """Processes of nodes that were ended because their memory was used up."""
        raise NotImplementedError

    def release(self) -> None:
        """From here on the storage is as fast as it can be, and memory has no limit: for what is
        read but not measured."""
        raise NotImplementedError


class WarmCache(Testbed):
    """Testbed W: what the pipelines cost where storage costs nothing."""

    name = "warm"
    memory = None

    @classmethod
    def check(cls, nodes: int) -> None:
        if nodes > 1:
            raise NoTestbed(f"--stand {cls.name} is one node, not {nodes}; remedy: --nodes 1")

    def _make(self, stack: ExitStack) -> None:
        pass

    def command(self, node: int, argv: Sequence[str], network: bool = True) -> list[str]:
        return list(argv)

    def begin(self) -> None:
        pass

    def counters(self) -> Counters:
        return Counters()

    def release(self) -> None:
        pass

    def count_memory_kills(self) -> int:
        return 0
