"""Whatever a crash leaves, the last version that was promised is there; without any one of the
syncs it is not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from recorder import Recorder

import horovod_opt.io as hio
from horovod_lab.io.crashes import operations
from horovod_lab.io.crashes.states import Crashes, State, put
from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.burst_buffer import BurstBuffer
from horovod_opt.io.checkpoints.draining import expire
from horovod_opt.io.checkpoints.files import sync, walk, write
from horovod_opt.io.checkpoints.tier import Tier

OLD, NEW = 1, 2
MARKS = OLD_SAVED, NEW_SAVED, NEW_DRAINED = "old saved", "new saved", "new drained"


def save(buffer: BurstBuffer, step: int) -> None:
    with buffer.save(step) as folder:
        (folder / "inner").mkdir()
        file = os.open(folder / "inner" / "state", os.O_WRONLY | os.O_CREAT)
        os.write(file, content(step))
        os.close(file)


def content(step: int) -> bytes:
    return b"%d" % step * 10


def record(folder: Path, fast: bool = True) -> Recorder:
    """Two versions, of which one is kept."""
    recorder = Recorder(folder)
    with recorder.recording(), hio.BurstBuffer(
            folder / "job" / "fast" if fast else None, folder / "job" / "slow", keep=1) as buffer:
        for step, saved in ((OLD, OLD_SAVED), (NEW, NEW_SAVED)):
            save(buffer, step)
            if step == OLD:
                buffer.drain()
            recorder.mark(saved)
        buffer.drain()
        recorder.mark(NEW_DRAINED)
    return recorder


def judge(state: State, folder: Path) -> Optional[str]:
    """What is wrong; None: nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    put(state.contents, folder)
    found = set()
    for name in ("fast", "slow"):
        tier = folder / "job" / name
        if not tier.exists():
            continue
        tier = Tier(tier, name)
        for step, rank in ((step, rank) for step in tier.steps() for rank in tier.ranks(step)):
            try:
                manifests.check(tier.path(step, rank), tier.manifest(step, rank))
            except hio.DataError as error:
                return f"B1: {error}"
            assert (tier.path(step, rank) / "inner" / "state").read_bytes() == content(step)
            if name == "slow" or state.mark != NEW_DRAINED:
                found.add(step)
    promised = {OLD_SAVED: {OLD, NEW}, NEW_SAVED: {NEW}, NEW_DRAINED: {NEW}}[state.mark]
    return None if found & promised else f"B2: of {sorted(promised)} there is {sorted(found)}"


def losses(recorded: list, folder: Path, first: int = 0):
    """Of the states that a crash after operation `first` can leave."""
    empty, scratch = folder / "empty", folder / "scratch"
    empty.mkdir(exist_ok=True)
    seen = set()
    for state in Crashes(empty, recorded, OLD_SAVED, 32, 1 << 8, first).states():
        key = state.digest, state.mark
        if key not in seen:
            seen.add(key)
            wrong = judge(state, scratch)
            if wrong:
                yield state, wrong


def syncs_after(recorded: list, mark: str) -> list[int]:
    begin = recorded.index((operations.MARKED, mark))
    return [i for i, operation in enumerate(recorded) if i > begin
            and operation[0] == operations.SYNC]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where it costs little to make a state."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        yield Path(name)


@pytest.fixture
def folder(memory) -> Path:
    (memory / "storage").mkdir()
    return memory / "storage"


@pytest.mark.parametrize("fast", [True, False], ids=["two tiers", "straight to slow"])
def test_no_crash_loses_a_version_and_without_any_one_sync_one_does(folder, memory, fast):
    recorded = record(folder, fast).operations
    assert list(losses(recorded, memory)) == []
    for number in syncs_after(recorded, OLD_SAVED):
        without = recorded[:number] + recorded[number + 1:]
        assert next(losses(without, memory, number), None), f"operation {number}"


def test_nothing_goes_for_a_version_whose_name_nobody_has_synced(folder, memory):
    """B3: another process renamed the newer version, and has not come to its syncs."""
    recorder = Recorder(folder)
    with recorder.recording():
        for step in (OLD, NEW):
            tier = Tier(folder / "slow", "slow")
            part = tier.new_part(step, 0)
            write(part / "state", content(step))
            manifest = manifests.Manifest.of(part, step, 0, 1)
            write(part / manifests.NAME, manifest.to_bytes())
            if step == OLD:
                tier.rename(part, manifest)
        for path in (path for group in walk(part) for path in group):
            sync(path)
        recorder.mark(OLD_SAVED)
        os.mkdir(tier.folder / str(NEW))
        os.rename(part, tier.path(NEW, 0))
        expire(tier, 0, keep=1)

    def count(omitted: Optional[int] = None) -> int:
        recorded = [operation for i, operation in enumerate(recorder.operations) if i != omitted]
        return sum(not any(state.contents.get(f"slow/{step}/0/state") == content(step)
                           for step in (OLD, NEW))
                   for state in Crashes(memory / "empty", recorded, OLD_SAVED).states())

    (memory / "empty").mkdir()
    assert count() == 0
    syncs = syncs_after(recorder.operations, OLD_SAVED)
    assert len(syncs) == 3  # of the version, of its tier, and the removal's, which is tried above
    assert all(count(sync) for sync in syncs[:2])
