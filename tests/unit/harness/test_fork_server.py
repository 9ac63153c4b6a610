"""Ranks of jobs that are forked are as those that are started: arguments, environment, files, CPUs,
and how they end. The framework is a module of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import fork_server
import psutil
import pytest
from events import MINUTE, wait_until

FORKED_RANK = Path(fork_server.__file__).with_name("forked_rank.py")
STATE = """
import atexit, json, os, sys
import framework
state = dict(arguments=sys.argv, environment=dict(os.environ), folder=os.getcwd(), name=__name__,
             cpus=sorted(os.sched_getaffinity(0)), input=sys.stdin.read(), path=sys.path[0],
             framework=framework.PID, hash=hash("text"), modules="json" in sys.modules)
print(json.dumps(state), file=sys.stderr)
atexit.register(print, "the end")
"""
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}  # Python adds to others


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> str:
    """The sockets of two, as forked_rank.py takes them."""
    folder = tmp_path_factory.mktemp("servers")
    (folder / "framework.py").write_text("import os\nPID = os.getpid()\n")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    sockets = [fork_server.start(folder, "framework", os.getpid(), environment) for _ in range(2)]
    assert sockets[0] == sockets[1]  # the second finds those of the first
    return ":".join(map(str, sockets[0]))


@pytest.fixture
def rank(servers, tmp_path):
    """Starts a rank that runs this program."""

    def rank(program: str, *arguments: str, number: int = 0, cpus: list[int] | None = None,
             **environment: str) -> subprocess.Popen[str]:
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, "-S", "-E", FORKED_RANK, servers, tmp_path / "program.py"]
        return subprocess.Popen(
            [*command, *arguments], cwd=tmp_path,
            env={**ENVIRONMENT, "HOROVOD_RANK": str(number), **environment},
            preexec_fn=cpus and (lambda: os.sched_setaffinity(0, cpus)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return rank


def forked_by(process: subprocess.Popen[str]) -> int:
    """The process that was forked for a rank, once it has written its number."""
    return int(process.stdout.readline())


def test_has_what_it_was_started_with(rank, tmp_path):
    cpus = [min(os.sched_getaffinity(0))]
    output, state = rank(STATE, "--an", "argument", cpus=cpus, A="b c").communicate("typed")
    assert output == "the end\n"
    state = json.loads(state)
    assert state["arguments"] == [str(tmp_path / "program.py"), "--an", "argument"]
    assert state["environment"] == {**ENVIRONMENT, "HOROVOD_RANK": "0", "A": "b c"}
    assert (state["folder"], state["path"]) == (str(tmp_path), str(tmp_path))
    assert (state["cpus"], state["input"], state["name"]) == (cpus, "typed", "__main__")


def test_neighbours_have_hashes_of_their_own(rank):
    """The framework is imported once for each."""
    seen = [json.loads(rank(STATE, number=number).communicate("")[1]) for number in range(4)]
    for what in "hash", "framework":
        first, second, third, fourth = (state[what] for state in seen)
        assert first == third != second == fourth


@pytest.mark.parametrize("program, code", [
    ("", 0), ("import sys; sys.exit(3)", 3), ("raise KeyError('a bug')", 1),
    ("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9),
    ("import os; os.abort()", -6),
])
def test_ends_as_the_forked_process_does(rank, program, code):
    process = rank(program)
    _, errors = process.communicate()
    assert process.returncode == code
    assert ("KeyError: 'a bug'" in errors) == ("KeyError" in program)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_both(rank, number):
    process = rank("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    forked = forked_by(process)
    process.send_signal(number)
    assert process.wait(MINUTE) == -number
    wait_until(lambda: not psutil.pid_exists(forked))


def test_a_handler_has_the_signal(rank):
    process = rank("import os, signal, sys\n"
                   "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
                   "print(os.getpid(), flush=True)\nsignal.pause()")
    forked_by(process)
    process.terminate()
    assert process.wait(MINUTE) == 5


def test_servers_end_with_their_owner(tmp_path):
    (tmp_path / "framework.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    owner = subprocess.Popen(["sleep", "1000"])
    fork_server.start(tmp_path, "framework", owner.pid, environment)
    started = [process for process in psutil.process_iter(["cmdline"])
               if str(tmp_path) in " ".join(process.info["cmdline"] or ())]
    assert len(started) == 2
    owner.kill()
    owner.wait()
    psutil.wait_procs(started, timeout=MINUTE)
    assert not any(process.is_running() for process in started)


def test_what_imports_look_at_is_not_forked():
    assert fork_server.suits({"HOROVOD_OPT_MODE": "topo", "OMPI_MCA_x": "1"})
    assert not fork_server.suits({"TF_XLA_FLAGS": "", "HOROVOD_OPT_MODE": "topo"})
