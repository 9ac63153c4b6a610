"""Counters as lines of JSON: whole whatever happens, and none that costs a training its end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from horovod_opt import stats_lines
from horovod_opt.settings import SettingsError
from horovod_opt.stats_lines import StatsLines, file_of

WRITER = """
import sys
from pathlib import Path
from horovod_opt import stats_lines
from horovod_opt.counters import TABLE, Stats
number = 0
def read():
    global number
    number += 1
    values = {row.field: number for row in TABLE}
    return Stats(**{**values, "rank": 3, "mode": "topo", "controller": "mpi", "messages": "tcp"})
lines = stats_lines.StatsLines(Path(sys.argv[1]), 3600, "torch", read)
print("begun", flush=True)
while True:
    lines._append()
"""


def check(folder, rank: int = 3) -> list[dict]:
    """All lines; each lies within a page."""
    content = file_of(folder, rank).read_bytes()
    assert content.endswith(b"\n")
    position = 0
    for line in content.splitlines(keepends=True):
        assert position // 4096 == (position + len(line) - 1) // 4096
        position += len(line)
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_leaves_whole_lines(tmp_path, seed):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"begun\n"
    time.sleep(random.Random(seed).uniform(0, 0.1))
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    lines = check(tmp_path)
    assert [line["steps"] for line in lines] == list(range(2, len(lines) + 2))
    assert len(lines) > 1


def test_what_was_left_of_a_line_is_cut_off(tmp_path, make_stats):
    file = file_of(tmp_path, 1)
    for left, kept in ((b"", b""), (b'{"a', b""), (b'{"a": 1}\n', b'{"a": 1}\n'),
                       (b'{"a": 1}\n{"b": "' + b"x" * 9000, b'{"a": 1}\n')):
        file.write_bytes(left)
        StatsLines(tmp_path, 3600, "torch", lambda: make_stats(rank=1)).end()
        assert file.read_bytes().startswith(kept + b'{"time"')
        assert [line.get("rank") for line in stats_lines.read(file)][-2:] == [1, 1]


def test_numbers_that_grow_stay_within_a_page(tmp_path, make_stats):
    steps = [0]

    def read():
        steps[0] = steps[0] * 3 + 1
        return make_stats(rank=3, steps=steps[0], input_bytes=steps[0] ** 2)

    lines = StatsLines(tmp_path, 3600, "torch", read)
    for _ in range(40):
        lines._append()
    lines.end()
    assert len(check(tmp_path)) == 42


def test_interval_and_end(tmp_path, make_stats):
    lines = StatsLines(tmp_path, 0.01, "tensorflow", lambda: make_stats(rank=3))
    while len(stats_lines.read(file_of(tmp_path, 3))) < 5:
        time.sleep(0.01)
    lines.end()
    count = len(check(tmp_path))
    lines.end()
    assert len(check(tmp_path)) == count  # the file is closed
    assert check(tmp_path)[0]["framework"] == "tensorflow"
    times = [line["monotonic"] for line in check(tmp_path)]
    assert times == sorted(times) and times[-1] <= time.monotonic()


def test_a_forked_child_writes_nothing(tmp_path, make_stats):
    lines = StatsLines(tmp_path, 3600, "torch", lambda: make_stats(rank=3))
    while not file_of(tmp_path, 3).stat().st_size:
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        lines.end()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(check(tmp_path)) == 1
    lines.end()
    assert len(check(tmp_path)) == 2


def test_a_full_disk_is_said_once(tmp_path, make_stats, capfd, monkeypatch):
    lines = StatsLines(tmp_path, 3600, "torch", lambda: make_stats(rank=3))
    while not file_of(tmp_path, 3).stat().st_size:
        time.sleep(0.01)
    write = os.write
    monkeypatch.setattr(stats_lines.os, "write", lambda file, text: write(file, text[:100]))
    lines._append()
    monkeypatch.undo()
    lines._append()
    lines.end()
    assert capfd.readouterr().err.count("gets no line of this rank from now on: the disk") == 1
    assert len(check(tmp_path)) == 1


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null", "/dev/null/none"])
def test_a_folder_that_takes_no_file(folder):
    with pytest.raises(SettingsError) as raised:
        stats_lines.make_folder(folder)
    assert f"HOROVOD_OPT_STATS_FOLDER='{folder}'" in str(raised.value)
    assert "unset it for no lines" in str(raised.value)


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    stats_lines.make_folder(str(tmp_path / "a" / "b"))
    assert list((tmp_path / "a" / "b").iterdir()) == []
