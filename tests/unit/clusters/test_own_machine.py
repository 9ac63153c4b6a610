"""The machine of its own on which jobs are tried: what it needs, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import own_machine
import psutil
import pytest

# A process and a mount inside; the first argument is a mark, the second a file.
INSIDE = "mount -t tmpfs $0 /mnt && touch $1 && exec sleep 1000"
START = "import sys, own_machine; own_machine.run_inside(['sh', '-c', *sys.argv[1:]])"


@pytest.fixture
def namespaces():
    if os.geteuid():
        pytest.skip("namespaces need the rights of root")
    if subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--fork", "true"]).returncode:
        pytest.skip("this machine allows no namespaces")


def test_it_needs_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(own_machine.NoMachine, match="needs the rights of root"):
        own_machine.run_inside(["true"])


@pytest.mark.usefixtures("namespaces")
def test_the_status_is_that_of_the_command():
    assert own_machine.run_inside(["sh", "-c", "exit 3"]) == 3


def find_processes(mark: str) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGKILL], ids=lambda name: name.name)
def test_nothing_stays_when_it_is_ended(tmp_path, name):
    mark, ready = uuid.uuid4().hex, tmp_path / "ready"
    folder = str(Path(own_machine.__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", START, INSIDE, mark, ready],
                               env={**os.environ, "PYTHONPATH": folder, "MARK": mark})
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.02)
        assert len(find_processes(mark)) >= 3  # this one, unshare, and what runs inside
        process.send_signal(name)
        process.wait()
        _, survivors = psutil.wait_procs(find_processes(mark), timeout=60)
        assert not survivors
    finally:
        for process in find_processes(mark):
            process.kill()
    assert mark not in Path("/proc/self/mounts").read_text()
