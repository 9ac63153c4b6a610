"""`horovod-opt doctor --pid` on processes of all kinds: what each is told to be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

import pytest

from horovod_opt import cli
from horovod_opt.doctor import rank_processes

ANSWER = ("fact\trank\t1\t2\t1\t2\nfact\tjob\t{job}\nfact\tmode\t8\t0\n"
          "fact\tlibrary\t/env/horovod/torch/mpi_lib_v2.so\nline\t0\tplan p\n"
          "fact\twaits\t0\tnegotiated\tallreduce\t0\t1200\tx\nend\n")
# Binds a socket as a rank does, says so, and does as it is told.
RANK = """
import os, signal, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0horovod-opt-state-" + os.urandom(16).hex())
listener.listen()
print("listens", flush=True)
{act}
time.sleep(600)
"""


@contextlib.contextmanager
def answering(text: str):
    """This process is a rank that answers so."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + rank_processes.PREFIX[1:] + uuid.uuid4().hex)
        listener.listen()

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(text.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextlib.contextmanager
def process(program: str):
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                          text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def doctor(capsys, *pids: int) -> tuple[int, str]:
    code = cli.main(["doctor", "--pid", *map(str, pids)])
    return code, capsys.readouterr().out


def stopped(pid: int) -> bool:
    return rank_processes.state_of(pid) == "T"


def wait_until(happened) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_rank(capsys):
    with answering(ANSWER.format(job="alone")):
        code, text = doctor(capsys, os.getpid())
    assert code == 0
    first, _, head, line, threads = text.splitlines()
    assert first == ("Rank 1 waits for 'x' (1.2 s), which all ranks of this host have called: ask "
                     "those of the other hosts.")
    assert head == f"rank 1 of 2, process {os.getpid()}: torch, mode topo, mpi, local rank 1 of 2"
    assert line == "  plan p"
    assert threads.startswith("  threads: main thread ")


def test_as_json(capsys):
    with answering(ANSWER.format(job="alone")):
        assert cli.main(["doctor", "--json", "--pid", str(os.getpid())]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    (rank,) = report["jobs"][0]["ranks"]
    assert (rank["rank"], rank["mode"], rank["waits"][0]["name"]) == (1, "topo", "x")
    assert rank["page"][1] == "  plan p"


def test_the_launcher_of_a_rank(capsys):
    with answering(ANSWER.format(job="alone")):
        code, text = doctor(capsys, os.getppid())
    assert code == 0
    assert f"rank 1 of 2, process {os.getpid()}" in text


def test_half_an_answer(capsys):
    with answering(ANSWER.removesuffix("end\n")):
        code, text = doctor(capsys, os.getpid())
    assert code == 1
    assert "it has ended in the middle of its answer" in text


def test_no_answer_from_a_rank_that_hangs(capsys, monkeypatch):
    monkeypatch.setattr(rank_processes.ask, "__defaults__", (0.5,))
    with process(RANK.format(act="")) as rank:
        rank.stdout.readline()
        code, text = doctor(capsys, rank.pid)
    assert code == 1
    assert "it has not answered within 0.5 s: it sleeps" in text


def test_a_rank_that_is_stopped(capsys, monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "5")
    with process(RANK.format(act="os.kill(os.getpid(), signal.SIGSTOP)")) as rank:
        rank.stdout.readline()
        wait_until(lambda: stopped(rank.pid))
        code, text = doctor(capsys, rank.pid)
    assert code == 1
    assert text.splitlines()[0] == (
        f"Rank 5 says nothing: it is stopped; kill -CONT {rank.pid} lets it go on.")
    assert f"rank 5, process {rank.pid}" in text


def test_no_rank(capsys):
    with process("import time; print(); time.sleep(600)") as child:
        child.stdout.readline()
        code, text = doctor(capsys, child.pid)
    assert code == 1
    assert text.startswith(f"Process {child.pid} ({sys.executable} -c import time;")
    assert "is no rank and has started none on this host" in text


def test_a_zombie_and_no_process(capsys):
    with process("") as child:
        wait_until(lambda: rank_processes.state_of(child.pid) == "Z")
        code, text = doctor(capsys, child.pid)
        assert code == 1
        assert text == f"Process {child.pid} has ended; its parent has not taken note of it yet.\n"
    assert doctor(capsys, child.pid) == (1, f"There is no process {child.pid}.\n")


def test_a_child_of_a_rank_is_none(capsys):
    """Even where it has its parent's descriptors."""
    with answering(ANSWER.format(job="alone")):
        child = os.fork()
        if child == 0:
            signal.pause()
        try:
            code, text = doctor(capsys, child)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert code == 1
    assert text.startswith(f"Process {child} (")
    assert "is no rank and has started none on this host" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user():
    program = ("import os, sys; os.setuid(65534); from horovod_opt.doctor import rank_processes; "
               f"print(rank_processes.refusal({os.getpid()}))")
    run = subprocess.run(
        [sys.executable, "-c", "import horovod_opt.doctor.rank_processes, pwd, subprocess;"
         + program], capture_output=True, text=True, check=True)
    assert run.stdout == (
        f"Process {os.getpid()} belongs to user root: ask as this user, or as root.\n")
