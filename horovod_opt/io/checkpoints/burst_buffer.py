"""hio.BurstBuffer: save() takes as long as the fast storage needs; the slow one follows."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Optional, Union

from horovod_opt.io.checkpoints import lifetime, restoring
from horovod_opt.io.checkpoints.copier import Copier
from horovod_opt.io.checkpoints.draining import expire, part_bytes
from horovod_opt.io.checkpoints.files import remove
from horovod_opt.io.checkpoints.lock import Lock
from horovod_opt.io.checkpoints.manifest import Manifest
from horovod_opt.io.checkpoints.signals import Signals
from horovod_opt.io.checkpoints.tier import Tier, is_full
from horovod_opt.io.errors import DataError, InputError, tell
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import ALONE, Communication
from horovod_opt.io.memory_limit import parse
from horovod_opt.io.progress import say

Folder = Union[str, "os.PathLike[str]"]
LEAST = 1 << 20  # bytes: a file system with less is full


class BurstBuffer:
    """Versions of a checkpoint in `fast`, each copied to `slow` in the background.

        buffer = hio.BurstBuffer("/local/job", "/lustre/job")
        with buffer.save(step) as folder:
            torch.save(state, folder / "state.pt")
        folder = buffer.restore()      # of the newest version, or None

    Args:
        fast: a folder of this node, for this job alone. None: all goes straight to `slow`.
        slow: a folder that all nodes see, for this job alone.
        keep: how many complete versions `slow` keeps.
        fast_bytes: that versions may take in `fast`, a number or "600GiB"; None: what there is.
        ranks: each of these saves a part of each version, and all take part in what is called here;
            None: this process saves all of it.
        signals: those that asked() tells of, such as (signal.SIGTERM, signal.SIGUSR1).

    Raises:
        InputError: the text names the remedy.
    """

    def __init__(self, fast: Optional[Folder], slow: Folder, keep: int = 2,
                 fast_bytes: Union[int, str, None] = None, ranks: Optional[Communication] = None,
                 signals: Sequence[int] = ()):
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise InputError(f"keep={tell(keep)}; remedy: a whole number of at least 1")
        self._limit = None if fast_bytes is None else parse(fast_bytes)
        self._ranks = (ranks or ALONE).channel("checkpoints").doing(
            f"makes, saves to, restores from or asks a BurstBuffer of {slow}")
        self._keep, self._pid = keep, os.getpid()
        self._locks: list[Any] = []
        self._signals = Signals(signals)
        try:
            self._tiers = run_together(self._ranks, lambda: self._open(fast, slow))
        except BaseException:
            self._signals.restore()
            self._release()
            raise
        self._fast, self._slow = self._tiers[0], self._tiers[-1]
        self._stalled, self._saved_bytes, self._expected = 0.0, 0, 0
        self._last = max((tier.parts(self.rank)[-1:] or [-1] for tier in self._tiers))[0]
        self._restored: Optional[int] = None
        self._copier = (Copier(self._fast, self._slow, self.rank, keep)
                        if self._fast is not self._slow else None)
        self._at_exit = lifetime.close_at_exit(self)
        # Who forgets it without close() leaves no thread and no lock behind.
        self._end = weakref.finalize(self, lifetime.end, self._copier, self._locks)
        self._end.atexit = False

    @property
    def rank(self) -> int:
        return self._ranks.rank

    def _open(self, fast: Optional[Folder], slow: Folder) -> list[Tier]:
        named = {"slow": Path(slow)} if fast is None else {"fast": Path(fast), "slow": Path(slow)}
        tiers = [Tier(path.absolute(), name) for name, path in named.items()]
        paths = [tier.folder.resolve() for tier in tiers]
        if len(paths) == 2 and (paths[0] == paths[1] or paths[0] in paths[1].parents
                                or paths[1] in paths[0].parents):
            raise InputError(f"fast={str(fast)!r} and slow={str(slow)!r} are one folder, or one is "
                             "in the other; remedy: two folders, of two storages")
        for tier in tiers:
            self._locks.append(Lock(tier.folder, self.rank))
        for tier in tiers:
            tier.tidy(self.rank)
        if fast is not None and lifetime.is_memory(paths[0]):
            say(f"fast={str(fast)!r} is memory: it ends with the machine, and a version is durable "
                "only once it is copied")
        return tiers

    @contextmanager
    def save(self, step: int) -> Iterator[Path]:
        """A folder for any saver; at the end of the `with` the version is durable (B2). After an
        exception there is no such version. `step` grows from version to version.

        Raises DataError: there is no room in `fast` and `slow` fails, too.
        """
        with self._tier_for(step) as tier, self._saving(tier, step) as folder:
            yield folder

    def save_with(self, step: int, function: Callable[[Path], Any]) -> None:
        """The same, by a function that writes into the folder which it is given. If `fast` is
        full after all, it is called again, for a folder in `slow`."""
        with self._tier_for(step) as tier:
            try:
                with self._saving(tier, step) as folder:
                    function(folder)
            except NoRoom as error:
                if tier is self._slow:
                    raise
                say(f"{error}; this version goes straight to {self._slow.folder}")
                with self._saving(self._slow, step) as folder:
                    function(folder)

    def restore(self) -> Optional[Path]:
        """The folder of this rank's part of the newest version that is complete and as it was
        saved (B4), else None; it stays until the next save. All ranks take the same version.

        Raises InputError: it was saved by another number of ranks.
        """
        self._require_usable()
        with self._nothing_removed():
            return self._restored_from(restoring.newest(self._tiers, self._ranks))

    def restore_parts(self) -> list[Path]:
        """The same of all parts, by the rank that saved them, for savers that can read what another
        number of ranks has saved; [] if there is nothing. All nodes must see all parts."""
        self._require_usable()
        with self._nothing_removed():
            found = restoring.newest_of_all_parts(self._tiers, self._ranks)
            self._restored_from(found and (found[0], found[1][0]))
        return found[1] if found else []

    def has_versions(self) -> bool:
        """Whether there is anything, be it damaged or incomplete."""
        return any(tier.ranks(step) for tier in self._tiers for step in tier.steps())

    def asked(self) -> Optional[str]:
        """Between two steps, on all ranks: "stop" if one of them has had SIGTERM since, "save" if
        another of `signals`, else None."""
        return self._signals.asked(self._ranks)

    def stats(self) -> dict[str, Any]:
        """`stall_seconds` in save(); `fast_bytes` now in the fast tier, of this rank; `slow_bytes`
        written to the slow one; `syncs` of files and folders; `behind`: versions that are not
        copied yet; `slow_error`: why copying fails, or ""."""
        copier = self._copier
        return {"stall_seconds": self._stalled,
                "fast_bytes": self._fast_bytes() if copier else 0,
                "slow_bytes": self._saved_bytes + (copier.slow_bytes if copier else 0),
                "syncs": sum(tier.syncs for tier in self._tiers),
                "behind": len(copier.waiting()) if copier else 0,
                "slow_error": str(copier.error or "") if copier else ""}

    def drain(self) -> None:
        """Waits until all is in the slow tier. Raises DataError: it cannot be written to."""
        self._require_usable()
        if self._copier:
            self._copier.wait(behind=0)

    def close(self, drain: bool = True) -> None:
        """Without `drain`, what is not copied yet stays in `fast`: for the next buffer there, or
        horovod-opt io drain. A second call does nothing."""
        if not self._locks or os.getpid() != self._pid:
            return
        atexit.unregister(self._at_exit)
        try:
            if drain:
                self.drain()
        finally:
            self._end()
            self._signals.restore()

    def __enter__(self) -> BurstBuffer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Waits for the copies also after an exception, which goes on then."""
        with suppress(*([DataError] if kind else [])):  # it has been said
            self.close()

    @contextmanager
    def _tier_for(self, step: int) -> Iterator[Tier]:
        """Where a new version goes first, while the training stands for it."""
        begin = time.monotonic()
        self._require_usable()
        self._check(step)
        yield self._choose()
        self._stalled += time.monotonic() - begin

    @contextmanager
    def _saving(self, tier: Tier, step: int) -> Iterator[Path]:
        self._drop_newer_than_restored()
        free, part = tier.free_bytes(), tier.new_part(step, self.rank)
        try:
            yield part
            manifest = Manifest.of(part, step, self.rank, self._ranks.size)
            tier.commit(part, manifest)
        except BaseException as error:
            is_now_full = is_full(error) or tier.free_bytes() < LEAST
            with suppress(OSError):
                remove(part)
            if is_now_full and isinstance(error, Exception):
                self._expected = max(self._expected, free + 1)
                raise NoRoom(f"no room in {tier.folder} for version {step}, of which nothing was "
                             f"kept: {error}; remedy: make room, a smaller keep= or fast_bytes=, or"
                             " save_with(), which goes to slow where fast is full") from error
            raise
        self._last, self._restored = step, None
        self._expected = max(manifest.bytes, LEAST)
        if self._copier:
            self._copier.pinned = None
            self._copier.notify()
        if tier is self._slow:
            self._saved_bytes += manifest.bytes
            if not self._copier:
                expire(tier, self.rank, self._keep)

    def _check(self, step: int) -> None:
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise InputError(f"step={tell(step)}; remedy: a whole number of at least 0")
        require_equal(self._ranks, {"step": step}, "all ranks save the same steps")
        last = self._last if self._restored is None else self._restored
        if step <= last:
            raise InputError(
                f"step={step}, but {self._slow.folder} has version {last} already; remedy: "
                "numbers that grow; after a restart go on from restore(), or take other folders")

    def _choose(self) -> Tier:
        """The fast tier, if it has room for a version as large as the last one; if need be once
        older ones are copied."""
        if self._copier is None:
            return self._fast
        while not self._has_room():
            # Before room is made: what is copied in between has not gone yet.
            behind = len(self._copier.waiting())
            self._copier.make_room()
            if not behind:
                break
            if not self._has_room():
                self._copier.wait(behind - 1)
        return self._fast if self._has_room() else self._slow

    def _has_room(self) -> bool:
        if self._limit is not None and self._fast_bytes() + self._expected > self._limit:
            return False
        return self._fast.free_bytes() >= max(self._expected, LEAST)

    def _fast_bytes(self) -> int:
        return sum(part_bytes(self._fast, step, self.rank) for step in self._fast.parts(self.rank))

    def _nothing_removed(self) -> AbstractContextManager:
        return self._copier.removing if self._copier else nullcontext()

    def _restored_from(self, found: Optional[tuple[int, Path]]) -> Optional[Path]:
        self._restored = found[0] if found else -1
        if self._copier:
            self._copier.pinned = self._restored
        return found[1] if found else None

    def _drop_newer_than_restored(self) -> None:
        """B1: of versions that the training has gone back behind, this rank's parts must not make a
        version with what other ranks save anew."""
        if self._restored is None or self._last <= self._restored:
            return
        for tier in self._tiers:
            for step in [step for step in tier.parts(self.rank) if step > self._restored]:
                if self._copier is None:
                    tier.remove(step, self.rank)
                    continue
                with self._copier.work:
                    tier.remove(step, self.rank)
                    self._copier.forget(step)
        self._last = self._restored

    def _require_usable(self) -> None:
        if os.getpid() != self._pid:
            raise InputError(f"this BurstBuffer is of process {self._pid}, of which this one is a "
                             "fork; remedy: save and restore there, or make one here with other "
                             "folders")
        if not self._locks:
            raise InputError("this BurstBuffer is closed; remedy: a new one")

    def _release(self) -> None:
        lifetime.end(None, self._locks)


class NoRoom(DataError):
    """A storage is full."""
