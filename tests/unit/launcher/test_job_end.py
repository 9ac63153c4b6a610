"""Whether all ranks of a job have ended well, whatever mpirun says of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from events import MINUTE, wait_until, without_descriptors

from horovod_opt.launcher import job_end, rank_end

# In place of mpirun: two ranks, of which `fault` may kill one with its group, and a status.
MPIRUN = """
import os, signal, subprocess, sys, time
fault, status, *command = sys.argv[1:]
ranks = [subprocess.Popen(command, env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)},
                          start_new_session=True) for rank in range(2)]

def end(*_):
    for rank in ranks:
        os.killpg(rank.pid, signal.SIGKILL)
    os._exit(9)

signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
open("mpirun", "w").close()
if fault:
    while len(os.listdir(".")) < 3:
        time.sleep(0.01)
    os.killpg(ranks[1].pid, signal.SIGKILL)
codes = [rank.wait() for rank in ranks]
sys.exit(int(status) if status else max(codes))
"""
# What starts the program of a rank, and has a minute for each word.
RANK_END = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("rank_end", {rank_end.__file__!r})
rank_end = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rank_end)
rank_end.SECONDS = {MINUTE}
sys.exit(rank_end.main(sys.argv[1:]))
"""
HOROVODRUN = f"""
import os, sys
from horovod_opt.launcher import job_end
job_end.LAST_WORDS_SECONDS = 0.5  # of a rank that was killed none will come
job_end._Listener.timeout = {MINUTE}
job_end.rank_end.__file__ = os.path.abspath("../rank_end.py")
end = job_end.JobEnd()
mpirun, fault, status, *command = sys.argv[1:]
sys.exit(end.run([sys.executable, mpirun, fault, status, *end.watched(command)],
                 end.environment(os.environ, ["lo"])))
"""


@pytest.fixture
def job(tmp_path):
    """Starts a job of two ranks of a Python program, in the folder `files`."""
    (tmp_path / "files").mkdir()
    (tmp_path / "mpirun.py").write_text(MPIRUN)
    (tmp_path / "horovodrun.py").write_text(HOROVODRUN)
    (tmp_path / "rank_end.py").write_text(RANK_END)
    started = []

    def job(program: str, fault: str = "", status: str = "") -> subprocess.Popen:
        started.append(subprocess.Popen(
            [sys.executable, tmp_path / "horovodrun.py", tmp_path / "mpirun.py", fault, status,
             sys.executable, "-c", "import os, sys, time; "
             "rank = int(os.environ['OMPI_COMM_WORLD_RANK']); " + program],
            cwd=tmp_path / "files", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield job
    for process in started:
        process.kill()
        process.communicate()


STARTED = "open(str(rank), 'w').close(); "


def test_all_end_well(job):
    ended = job("os.write(1, b'well %d\\n' % rank)")
    out, err = ended.communicate()
    assert (ended.returncode, err) == (0, "")
    assert sorted(out.split("\n")) == ["", "well 0", "well 1"]


def test_status_of_mpirun(job):
    ended = job("sys.exit(3 * rank)")
    assert (ended.communicate()[1], ended.returncode) == ("", 3)


def test_a_rank_that_mpirun_lost(job):
    """It says 0 for a rank that was killed with all that belongs to it."""
    ended = job(STARTED + "time.sleep(600 * rank)", fault="kill", status="0")
    _, err = ended.communicate()
    assert ended.returncode == 1
    assert f"rank 1 on {os.uname().nodename} was killed, or its host was lost" in err
    assert "rank 0" not in err


@pytest.mark.parametrize("program, message", [
    ("sys.exit(5 * rank)", "ended with status 5"),
    ("rank and os.kill(os.getpid(), 11)", "was ended by signal 11"),
])
def test_a_rank_that_mpirun_does_not_mind(job, program, message):
    ended = job(program, status="0")
    _, err = ended.communicate()
    assert ended.returncode == 1
    assert message in err
    assert "rank 0" not in err


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_end_of_horovodrun_is_that_of_mpirun(job, tmp_path, end):
    running = job(STARTED + "time.sleep(600)")
    wait_until(lambda: len(os.listdir(tmp_path / "files")) == 3)
    mpirun, = (int(pid) for pid in
               Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split())
    process = psutil.Process(mpirun)
    running.send_signal(end)
    assert running.wait(MINUTE) != 0
    process.wait(MINUTE)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_without_descriptors_it_sleeps_until_there_is_one(monkeypatch, number):
    """Then it hears who has waited."""
    times, has_room = without_descriptors(monkeypatch, number)
    with job_end.JobEnd() as end:
        thread = threading.Thread(target=end.serve_forever, args=(0.01,))
        thread.start()
        with socket.create_connection(("127.0.0.1", end.server_address[1]), MINUTE) as rank:
            rank.sendall(f"{end.key} 0 host starts\n".encode())
            wait_until(lambda: len(times) >= 4)
            has_room.set()
            assert rank.recv(1) == b"."
        end.shutdown()
        thread.join()
    assert end.hosts == {"0": "host"}
    assert min(b - a for a, b in zip(times, times[1:])) >= job_end.REST_SECONDS


# What starts the program of a rank


def run(*program: object, start: tuple[str, ...] = (rank_end.__file__,),
        **how: object) -> subprocess.CompletedProcess:
    """With the name of a launcher that nobody can reach."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *start, *map(str, program)],
        env={**os.environ, rank_end.LAUNCHER: "key,9,127.0.0.1"}, capture_output=True, text=True,
        **how)


def test_the_program_is_as_without():
    expression = "[sys.argv[1:], sys.stdin.read(), dict(os.environ)]"
    script = f"import json, os, sys; print(json.dumps({expression}))"
    ended = run(sys.executable, "-c", script, "-bind-to", "two words", "", input="some\nlines")
    assert (ended.returncode, ended.stderr) == (0, "")
    arguments, read, environ = json.loads(ended.stdout)
    assert arguments == ["-bind-to", "two words", ""]
    assert read == "some\nlines"
    assert environ == dict(os.environ)


@pytest.mark.parametrize("script, code", [
    ("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("kill -KILL $$", -9),
])
def test_the_status_is_the_programs(script, code):
    assert run("sh", "-c", script).returncode == code


def test_a_program_that_is_not_there():
    ended = run("no-such-program")
    assert ended.returncode == 127
    assert "cannot run no-such-program: No such file or directory" in ended.stderr


SIGNALS_ITS_GROUP = ("sh", "-c", "trap 'echo handled; exit 5' TERM; kill -TERM 0; "
                     "while :; do sleep 0.01; done")


def test_a_program_may_handle_the_signals_of_its_group():
    ended = run(*SIGNALS_ITS_GROUP, start_new_session=True)
    assert (ended.returncode, ended.stdout) == (5, "handled\n")


def test_also_those_of_its_first_moment():
    """The program starts when its parent ignores them, however late that is."""
    late = ("import runpy, signal, sys, time; own = signal.signal; "
            "signal.signal = lambda *which: (time.sleep(0.1), own(*which)); "
            f"sys.argv[0] = {rank_end.__file__!r}; "
            "runpy.run_path(sys.argv[0], run_name='__main__')")
    ended = run(*SIGNALS_ITS_GROUP, start=("-c", late), start_new_session=True)
    assert (ended.returncode, ended.stdout) == (5, "handled\n")
