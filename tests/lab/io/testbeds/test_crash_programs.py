"""Programs that save something: with all of their syncs a crash loses nothing, without any one of
them it does."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import pytest

from horovod_lab.io.testbeds.crashing_storage import CrashingStorage

OLD, NEW = b"old" * 2000, b"newer" * 1400
SEEDS = (None, 0, 1)
MORE_SEEDS = range(2, 20)  # to find what is lost by chance alone


@contextmanager
def open_file(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    file = os.open(path, flags, 0o644)
    try:
        yield file
    finally:
        os.close(file)


@dataclass
class Run:
    """Of a program in a folder, without the sync named `omission`; what it has promised so far."""

    folder: Path
    omission: Optional[str] = None
    syncs: list[str] = field(default_factory=list)
    promises: list[str] = field(default_factory=list)

    def sync(self, name: str, path: Path) -> None:
        with open_file(path) as file:
            self.sync_file(name, file)

    def sync_file(self, name: str, file: int) -> None:
        self.syncs.append(name)
        if name != self.omission:
            os.fsync(file)

    def promise(self, promise: str) -> None:
        self.promises.append(promise)


def content(path: Path) -> Optional[bytes]:
    """None: there is nothing."""
    return path.read_bytes() if path.exists() else None


def write(path: Path, data: bytes) -> None:
    with open_file(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as file:
        for begin in range(0, len(data), 4000):
            os.write(file, data[begin:begin + 4000])


def replace(run: Run) -> None:
    part, whole = run.folder / "part", run.folder / "checkpoint"
    write(part, NEW)
    run.sync("file", part)
    part.rename(whole)
    run.sync("folder", run.folder)
    run.promise("new")


def is_replaced(run: Run) -> bool:
    return content(run.folder / "checkpoint") in ([NEW] if run.promises else [OLD, NEW])


def link_nameless(run: Run) -> None:
    with open_file(run.folder, os.O_TMPFILE | os.O_RDWR) as file, open_file(Path("/")) as root:
        os.write(file, NEW)
        run.sync_file("file", file)
        os.link(f"/proc/self/fd/{file}", run.folder / "output", src_dir_fd=root)
    run.sync("folder", run.folder)
    run.promise("output")


def is_linked(run: Run) -> bool:
    return content(run.folder / "output") in ([NEW] if run.promises else [None, NEW])


def append(run: Run) -> None:
    with open_file(run.folder / "checkpoint", os.O_WRONLY | os.O_APPEND) as file:
        os.write(file, NEW)
        run.sync_file("file", file)
    run.promise("appended")


def is_appended(run: Run) -> bool:
    whole, data = OLD + NEW, content(run.folder / "checkpoint")
    return data == whole if run.promises else data.startswith(OLD) and whole.startswith(data)


def new_folder(run: Run) -> None:
    step = run.folder / "step"
    step.mkdir()
    write(step / "state", NEW)
    run.sync("file", step / "state")
    run.sync("folder", step)
    run.sync("its folder", run.folder)
    run.promise("step")


def is_in_new_folder(run: Run) -> bool:
    return not run.promises or content(run.folder / "step" / "state") == NEW


def move(run: Run) -> None:
    (run.folder / "checkpoint").rename(run.folder / "other" / "checkpoint")
    run.sync("to", run.folder / "other")
    run.sync("from", run.folder)
    run.promise("moved")


def is_moved(run: Run) -> bool:
    before = content(run.folder / "checkpoint")
    after = content(run.folder / "other" / "checkpoint")
    if run.promises:
        return (before, after) == (None, OLD)
    return OLD in (before, after) and {before, after} <= {None, OLD}


def remove(run: Run) -> None:
    (run.folder / "checkpoint").unlink()
    run.sync("folder", run.folder)
    run.promise("removed")


def is_removed(run: Run) -> bool:
    return content(run.folder / "checkpoint") in ([None] if run.promises else [None, OLD])


def burst(run: Run) -> None:
    """Saves to the fast folder, copies to the slow one, and then removes the fast copy."""
    fast, slow = run.folder / "fast", run.folder / "slow"
    write(fast / "part", NEW)
    run.sync("fast file", fast / "part")
    (fast / "part").rename(fast / "save")
    run.sync("fast folder", fast)
    run.promise("saved")
    write(slow / "part", (fast / "save").read_bytes())
    run.sync("slow file", slow / "part")
    (slow / "part").rename(slow / "save")
    run.sync("slow folder", slow)
    (fast / "save").unlink()
    run.sync("fast folder, emptied", fast)
    run.promise("drained")


def is_saved(run: Run) -> bool:
    copies = content(run.folder / "fast" / "save"), content(run.folder / "slow" / "save")
    if "drained" in run.promises:
        return copies == (None, NEW)
    if "saved" in run.promises:
        # The fast copy counts as long as it is there.
        return (copies[0] or copies[1]) == NEW
    return copies[0] in (None, NEW) and copies[1] is None


Program = Callable[[Run], None]
# What each program does, whether its promises are kept, and the names of its syncs.
PROGRAMS: list[tuple[Program, Callable[[Run], bool], tuple[str, ...]]] = [
    (replace, is_replaced, ("file", "folder")),
    (link_nameless, is_linked, ("file", "folder")),
    (append, is_appended, ("file",)),
    (new_folder, is_in_new_folder, ("file", "folder", "its folder")),
    (move, is_moved, ("to", "from")),
    (remove, is_removed, ("folder",)),
    (burst, is_saved, ("fast file", "fast folder", "slow file", "slow folder",
                       "fast folder, emptied"))]
NAMES = [program.__name__ for program, _, _ in PROGRAMS]
OMISSIONS = [(*entry[:2], name) for entry in PROGRAMS for name in entry[2]]


@pytest.fixture
def begin_run(crashing) -> Callable[[], Path]:
    """A folder with an old checkpoint, all of it synced."""
    def begin() -> Path:
        folder = crashing.path(0) / f"run{next(numbers)}"
        folder.mkdir()
        for name in ("fast", "slow", "other"):
            (folder / name).mkdir()
        write(folder / "checkpoint", OLD)
        for path in (folder / "checkpoint", folder, crashing.path(0)):
            with open_file(path) as file:
                os.fsync(file)
        return folder

    return begin


numbers = itertools.count()


def crash_during(storage: CrashingStorage, run: Run, program: Program, changes: int,
                 seed: Optional[int]) -> bool:
    """Whether the program was done before the crash, which then comes at its end."""
    storage.crash_after(changes, seed)
    is_done = True
    try:
        program(run)
    except OSError as error:
        assert error.errno == errno.EIO
        is_done = False
    storage.crash_after(0, seed)
    storage.restart()
    return is_done


@pytest.mark.parametrize("program, check, syncs", PROGRAMS, ids=NAMES)
def test_with_all_syncs_no_crash_loses_anything(crashing, begin_run, program, check, syncs):
    for seed in SEEDS:
        for changes in itertools.count():
            run = Run(begin_run())
            is_done = crash_during(crashing, run, program, changes, seed)
            there = Run(crashing.path(1) / run.folder.name, promises=run.promises)
            assert check(there), f"a crash after {changes} changes, seed {seed}"
            if is_done:
                break
        assert tuple(run.syncs) == syncs
        assert changes > len(syncs)


@pytest.mark.parametrize("program, check, omission", OMISSIONS,
                         ids=[f"{entry[0].__name__}-{entry[2]}" for entry in OMISSIONS])
def test_without_one_of_them_a_crash_loses_something(crashing, begin_run, program, check, omission):
    def is_lost() -> bool:
        for seed in (*SEEDS, *MORE_SEEDS):
            for changes in itertools.count():
                run = Run(begin_run(), omission)
                is_done = crash_during(crashing, run, program, changes, seed)
                if not check(run):
                    return True
                if is_done:
                    break
        return False

    assert is_lost()
