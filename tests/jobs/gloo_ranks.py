"""Ranks of torch.distributed without a launcher: nobody ends those that are left when one dies.

What they write goes to files: a pipe ends with the last process that has it, which may be a worker
that outlives its rank.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jobs import HANG_SECONDS, PYTHONPATH, inherited, worker_file


def free_port() -> int:
    """None that the kernel gives to connections, which may come before it is used."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(first // 2, first)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass(frozen=True)
class RankEnd:
    """How a rank has ended."""

    code: int
    output: str
    errors: str

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


class GlooRanks:
    """Starts workers/*/<worker>.py, once for each rank."""

    def __init__(self, folder: Path, worker: str | Path, *arguments: object, ranks: int,
                 **environment: str):
        self._texts = [[folder / f"{kind}-{rank}.txt" for kind in ("output", "errors")]
                       for rank in range(ranks)]
        command = [sys.executable, worker_file(worker), folder, *map(str, arguments)]
        common = {**inherited(), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
                  "PYTHONPATH": PYTHONPATH, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), **environment}
        self.processes = []
        for rank, (output, errors) in enumerate(self._texts):
            with output.open("w") as out, errors.open("w") as err:
                self.processes.append(subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    env={**common, "RANK": str(rank)}))

    def wait(self, seconds: float = HANG_SECONDS) -> list[RankEnd]:
        """Of each rank. Raises TimeoutExpired if one hangs, once none is left."""
        try:
            for process in self.processes:
                process.wait(seconds)
        finally:
            self.kill()
        return [RankEnd(process.returncode, *(path.read_text(errors="replace") for path in paths))
                for process, paths in zip(self.processes, self._texts)]

    def kill(self) -> None:
        """All that are left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
