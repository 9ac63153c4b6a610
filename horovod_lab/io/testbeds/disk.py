"""Testbed H, a hard disk: a loop device that does 200 requests a second, and the image of a file
system that is in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from horovod_lab.io.testbeds.limited_nodes import LimitedNodes
from horovod_lab.io.testbeds.nodes import Nodes
from horovod_lab.io.testbeds.requirements import call
from horovod_lab.io.testbeds.testbed import Counters, NoTestbed

REQUESTS = 200  # a second
NO_LIMIT = 0
READAHEAD = 128  # KiB; loop devices begin with what their file's disk has, or more
LOOP = "7"  # the major number of loop devices
BLKIO, RULES = "blkio", "blkio.throttle.read_iops_device"
SERVED = ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes")
# Without reading inodes ahead: each block of them would count as a request of its own.
MOUNT_OPTIONS = "ro,noatime,inode_readahead_blks=0"
# Of the image, in bytes.
BLOCK, INODE = 4096, 256
SPARE = 8 << 20  # for what the file system says of itself


class Disk(LimitedNodes):
    """Of one node. The image of its file system is kept beside the data, for the next time."""

    name = "disk"
    speed = {"requests_per_second": REQUESTS, "readahead_kib": READAHEAD}
    programs = ("losetup", "mkfs.ext4", "debugfs")
    controllers = (BLKIO,)

    @classmethod
    def check(cls, nodes: int) -> None:
        if nodes > 1:
            raise NoTestbed(f"--stand {cls.name} is the disk of one node, not of {nodes}; "
                            "remedy: --nodes 1, or --stand parallel")
        super().check(nodes)

    def _mount(self, stack: ExitStack, nodes: Nodes) -> None:
        remove_old_rules(self._roots[BLKIO])
        image = image_of(self.folder)
        for device in call(["losetup", "--associated", image, "--noheadings", "--output",
                            "NAME"]).split():
            _detach(device)
        self._device = call(["losetup", "--find", "--show", "--read-only", "--direct-io=on",
                             image]).strip()
        stack.callback(_detach, self._device)
        self._block = Path("/sys/block", Path(self._device).name)
        (self._block / "queue" / "read_ahead_kb").write_text(str(READAHEAD))
        call([*nodes.enter(0), "mount", "--types", "ext4", "--options", MOUNT_OPTIONS, self._device,
              self.folder])
        _detach(self._device)
        stack.callback(self._limit, NO_LIMIT)
        self._limit(REQUESTS)
        self._before = self._read()

    def _limit(self, requests: int) -> None:
        """In the nodes' group, and in that of all processes: not everything that a file system does
        is counted as done by who has asked for it."""
        for folder in self._folders():
            (folder / RULES).write_text(f"{self._number()} {requests}")

    def _read(self) -> list[int]:
        """Requests and bytes so far, as the limit counts them."""
        prefix = f"{self._number()} Read "
        lines = [[line for folder in self._folders()
                  for line in (folder / name).read_text().splitlines()] for name in SERVED]
        return [sum(int(line[len(prefix):]) for line in file_lines if line.startswith(prefix))
                for file_lines in lines]

    def _folders(self) -> tuple[Path, Path]:
        return self._roots[BLKIO], self._groups[BLKIO].folder

    def _number(self) -> str:
        """The device's, as the kernel writes it."""
        return (self._block / "dev").read_text().strip()

    def begin(self) -> None:
        super().begin()
        self._before = self._read()

    def counters(self) -> Counters:
        requests, size = (now - before for now, before in zip(self._read(), self._before))
        return Counters(requests, size)

    def release(self) -> None:
        super().release()
        self._limit(NO_LIMIT)


def remove_old_rules(root: Path) -> None:
    """Of loop devices without a file: who made them was killed."""
    for line in (root / RULES).read_text().splitlines():
        number = line.split()[0]
        if number.startswith(f"{LOOP}:") and not Path(f"/sys/dev/block/{number}/loop").exists():
            (root / RULES).write_text(f"{number} {NO_LIMIT}")


def _detach(device: str) -> None:
    """At once, or when nothing is mounted from it any more."""
    with suppress(OSError):  # it is gone already
        call(["losetup", "--detach", device])


def image_of(folder: Path) -> Path:
    """A file system with the content of the folder, in a file beside it; made if it is not there,
    or older than the content. Raises OSError."""
    image = folder.with_name(folder.name + ".ext4")
    statuses = [path.lstat() for path in (folder, *folder.rglob("*"))]
    newest = max(status.st_mtime_ns for status in statuses)
    if not image.exists() or image.stat().st_mtime_ns <= newest:
        draft = image.with_name(image.name + ".unfinished")
        _make_image(folder, draft, statuses)
        draft.replace(image)
    return image


def _make_image(folder: Path, image: Path, statuses: Sequence[os.stat_result]) -> None:
    """Sparse, and without a journal: it is only read."""
    blocks = sum(-(-status.st_size // BLOCK) + 1 for status in statuses)
    inodes = len(statuses) + 64
    size = blocks * BLOCK * 21 // 20 + inodes * INODE + SPARE
    with image.open("wb") as file:
        file.truncate(size - size % BLOCK)
    call(["mkfs.ext4", "-q", "-F", "-b", BLOCK, "-I", INODE, "-N", inodes, "-m", 0,
          "-O", "^has_journal", "-d", folder, image])
    call(["debugfs", "-w", "-R", "rmdir lost+found", image])  # which the folder does not have
