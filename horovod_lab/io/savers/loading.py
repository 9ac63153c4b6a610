"""Reads states with a saver's own loader, in a process of its own: one that ends is an error."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from horovod_lab.io.crashes.states import Contents, put
from horovod_lab.io.savers import ERROR

TIMEOUT = 60  # s that a loader may take


class Loader:
    """`command` is a job.py that loads. A `with` ends it."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]):
        self._command, self._environ = command, environ
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Loader:
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = Path(tempfile.mkdtemp(dir=memory))
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, contents: Contents) -> tuple[str, str]:
        """The outcome, and what an error says."""
        state = self._folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        put(contents, state)
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, env=self._environ, cwd="/", text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._process.stdin.write(f"{state}\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], TIMEOUT)[0]:
            self._end()
            return ERROR, f"no answer in {TIMEOUT} s"
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._end()
            return ERROR, f"its process has ended with status {status}"
        outcome, text = json.loads(line)
        return outcome, text

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
