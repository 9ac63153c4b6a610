"""Processes that a rank starts after it has opened data: forks, and workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback

import psutil
import pytest
from data_sets import tfrecord
from events import wait_until

import horovod_opt.io as hio

SAMPLES = 200


@pytest.fixture
def path(tmp_path):
    return tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(2, "little") * 9 for i in range(SAMPLES)])


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:2], "little")


def in_child(function) -> int:
    """Its exit status: 0 if `function` returns."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_that_goes_on_with_its_parents_loader_is_told(path):
    with hio.open(path, chunk_samples=8) as data:
        loader = hio.torch.loader(data, 8, decode=number)
        loop = iter(loader)
        numbers = next(loop).tolist()

        def go_on() -> None:
            with pytest.raises(hio.ReaderEnded, match="opened before this process was forked; "
                                                      "remedy: open it here"):
                next(iter(loader))

        assert in_child(go_on) == 0
        numbers += sum((batch.tolist() for batch in loop), [])
    assert sorted(numbers) == list(range(SAMPLES))


def test_a_child_may_open_the_data_itself(path):
    with hio.open(path, seed=1) as data:
        loop = iter(hio.torch.loader(data, 8, decode=number))
        numbers = next(loop).tolist()

        def read_all() -> None:
            with hio.open(path, seed=1) as own_data:
                (batch,) = hio.torch.loader(own_data, SAMPLES, decode=number, epochs=1)
            assert sorted(batch.tolist()) == list(range(SAMPLES))

        assert in_child(read_all) == 0
        numbers += sum((batch.tolist() for batch in loop), [])
    assert sorted(numbers) == list(range(SAMPLES))


KILLED_WORKER = """
import json, sys
import psutil, pytest
import horovod_opt.io as hio

def number(sample):
    return int.from_bytes(sample.data[:2], "little")

numbers, state = [], {}
with pytest.raises(RuntimeError, match="worker.*(killed|exited)"):
    with hio.open(sys.argv[1], seed=1, chunk_samples=8) as data:
        before = psutil.Process().children()
        for batch in hio.torch.loader(data, 8, decode=number, workers=2, epochs=1):
            batch_numbers, place = batch.tolist(), json.loads(json.dumps(data.state_dict()))
            numbers, state = numbers + batch_numbers, place
            if len(numbers) == 8:
                workers = psutil.Process().children()
                next(worker for worker in workers if worker not in before).kill()
with open(sys.argv[2], "w") as file:
    json.dump([numbers, state], file)
"""


def test_a_killed_worker_is_an_error_and_nothing_is_lost(path, tmp_path):
    """In a process of its own: PyTorch raises from a signal handler, so anywhere and any number
    of times while the iterator lives, also in what runs the tests."""
    left = tmp_path / "left.json"
    run = subprocess.run([sys.executable, "-c", KILLED_WORKER, path, left], capture_output=True,
                         text=True, timeout=100, check=False)
    # The error may come again after all is said.
    assert left.exists(), run.stderr
    numbers, state = json.loads(left.read_text())
    assert 8 <= state["position"] == len(numbers) < SAMPLES
    with hio.open(path, seed=1, chunk_samples=8) as data:
        data.load_state_dict(state)
        for batch in hio.torch.loader(data, 8, decode=number, workers=1, epochs=1):
            numbers += batch.tolist()
    assert sorted(numbers) == list(range(SAMPLES))


LATE_WORKER = """
import os, signal, sys
import psutil, torch.utils.data._utils.worker as worker
import horovod_opt.io as hio

# As where the rank has died before the worker asks who its parent is.
worker.ManagerWatchdog.is_alive = lambda self: True
with hio.open(sys.argv[1]) as data:
    loop = iter(hio.torch.loader(data, 8, workers=2, context=sys.argv[2]))
    next(loop)
    print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_a_worker_ends_with_its_rank_even_if_pytorch_does_not_see_that(path, context):
    run = subprocess.run([sys.executable, "-c", LATE_WORKER, path, context],
                         stdout=subprocess.PIPE, text=True, timeout=100, check=False)
    workers = [int(pid) for pid in run.stdout.split()]
    assert len(workers) >= 2
    wait_until(lambda: not any(map(psutil.pid_exists, workers)))


SCRIPT = """
import multiprocessing, sys
import horovod_opt.io as hio

class OpensItself:
    def __getstate__(self):
        return 1

    def __setstate__(self, state):
        with hio.open(sys.argv[1]) as data:
            print(len(data))

data = hio.open(sys.argv[1])
worker = multiprocessing.get_context("spawn").Process(target=print, args=(OpensItself(),))
worker.start()
worker.join()
"""


@pytest.mark.parametrize("is_guarded", [False, True])
def test_a_script_that_is_run_again_is_told_the_remedy(path, tmp_path, is_guarded):
    """What is below `if __name__` may open data in a worker."""
    begin, _, rest = SCRIPT.partition("data = ")
    script = tmp_path / "script.py"
    script.write_text(f"{begin}if __name__ == '__main__':\n    data = " +
                      rest.replace("\n", "\n    ") if is_guarded else SCRIPT)
    run = subprocess.run([sys.executable, script, path], capture_output=True, text=True,
                         timeout=100, check=True)
    if is_guarded:
        assert run.stdout.splitlines()[0] == str(SAMPLES)
    else:
        assert "InputError: a process that the script has started opens the data" in run.stderr
        assert "below `if __name__ == '__main__':`" in run.stderr
