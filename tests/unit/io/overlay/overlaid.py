"""Programs that see a pack in the place of a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

READ_ALL = r"""
import os, sys
read = failed = 0
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                assert file.read() == open(os.path.join(sys.argv[2], os.path.relpath(
                    os.path.join(folder, name), sys.argv[1])), "rb").read(), name
            read += 1
        except OSError as error:
            assert error.errno == 5, error
            failed += 1
print(read, failed)
"""


@dataclass
class Job:
    """`at`: the folder that programs see, which is not there."""

    source: Path
    pack: Path
    at: Path
    counters_file: Path
    outputs: Path | None = None

    def start(self, *command: str, pack: Path | None = None, options: tuple[str, ...] = (),
              **more) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "horovod_opt.cli", "io", "run", "--pack",
             str(pack or self.pack), "--at", str(self.at), *options, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, *command: str, **more) -> subprocess.CompletedProcess:
        process = self.start(*command, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def python(self, program: str, *arguments: str, **more) -> str:
        """What it prints; it must end well."""
        done = self.run(sys.executable, "-c", program, *arguments, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def counters(self, *command: str, **more) -> dict[str, int]:
        """Of a job with this one program, which must end well."""
        done = self.run(*command, options=("--counters", str(self.counters_file)), **more)
        assert done.returncode == 0, done.stderr
        return self.last_counters()

    def last_counters(self) -> dict[str, int]:
        """They come when the store has ended, soon after the last program."""
        end = time.monotonic() + 60
        while not self.counters_file.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        return json.loads(self.counters_file.read_text())

    def stores(self) -> list[int]:
        """Numbers of processes that have this pack's table."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and str(self.pack).encode() in (
                        entry / "cmdline").read_bytes() and any(
                        os.readlink(fd).startswith("/memfd:hvdopt-counters")
                        for fd in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile, or is another user's
                pass
        return found

    def wait_for_stores(self) -> None:
        """Until the last one has ended."""
        end = time.monotonic() + 60
        while self.stores():
            assert time.monotonic() < end
            time.sleep(0.01)
