"""Stand H, a hard disk: a loop device that does 200 requests a second."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

from horovod_lab.io.testbeds.disk_image import image_of
from horovod_lab.io.testbeds.limited_nodes import LimitedNodes
from horovod_lab.io.testbeds.nodes import Nodes
from horovod_lab.io.testbeds.requirements import call
from horovod_lab.io.testbeds.stand import Counters, NoStand

REQUESTS = 200  # a second
NO_LIMIT = 0
READAHEAD = 128  # KiB; loop devices begin with what their file's disk has, or more
LOOP = "7"  # the major number of loop devices
BLKIO, RULES = "blkio", "blkio.throttle.read_iops_device"
SERVED = ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes")
# Without reading inodes ahead: each block of them would count as a request of its own.
MOUNTED = "ro,noatime,inode_readahead_blks=0"


class Disk(LimitedNodes):
    """Of one node. The image of its file system is kept beside the data, for the next time."""

    name = "disk"
    speed = {"requests_per_second": REQUESTS, "readahead_kib": READAHEAD}
    programs = ("losetup", "mkfs.ext4", "debugfs")
    controllers = (BLKIO,)

    @classmethod
    def check(cls, nodes: int) -> None:
        if nodes > 1:
            raise NoStand(f"--stand {cls.name} is the disk of one node, not of {nodes}; "
                          "remedy: --nodes 1, or --stand parallel")
        super().check(nodes)

    def _mount(self, stack: ExitStack, nodes: Nodes) -> None:
        remove_old_rules(self._roots[BLKIO])
        image = image_of(self.folder)
        for left in call(["losetup", "--associated", image, "--noheadings", "--output",
                          "NAME"]).split():
            _detach(left)
        self._device = call(["losetup", "--find", "--show", "--read-only", "--direct-io=on",
                             image]).strip()
        stack.callback(_detach, self._device)
        self._block = Path("/sys/block", Path(self._device).name)
        (self._block / "queue" / "read_ahead_kb").write_text(str(READAHEAD))
        call([*nodes.enter(0), "mount", "--types", "ext4", "--options", MOUNTED, self._device,
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
        wanted = f"{self._number()} Read "
        lines = [[line for folder in self._folders()
                  for line in (folder / served).read_text().splitlines()] for served in SERVED]
        return [sum(int(line[len(wanted):]) for line in each if line.startswith(wanted))
                for each in lines]

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
