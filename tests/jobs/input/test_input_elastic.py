"""Elastic training on files: ranks die, come and go, and each sample still comes once an epoch."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from data_sets import tfrecord
from jobs import BIN, elastic, run_job
from selection import by_hand, hosts_or_skip

SAMPLES = 211
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def pattern(tmp_path) -> str:
    """Records that begin with their numbers."""
    return str(tfrecord(tmp_path / "data.tfrecord", (
        number.to_bytes(4, "little") + bytes(number % 90) for number in range(SAMPLES))))


def pack(pattern: str) -> None:
    """Each node then unpacks the file, and again after it has lost its reader."""
    Path(pattern).write_bytes(gzip.compress(Path(pattern).read_bytes()))


def notes(folder: Path) -> list[list[dict]]:
    """Of each process."""
    return [[json.loads(line) for line in path.read_text().splitlines()]
            for path in folder.glob("notes.*")]


OF_A_RANK, OF_ALL_RANKS = {"batch_size": 4}, {"global_batch_size": 10}


@pytest.mark.parametrize("framework, batch, dies, is_packed", [
    ("tensorflow", OF_A_RANK, 1, False), ("torch", OF_ALL_RANKS, 1, False),
    ("torch", OF_A_RANK, 0, True),
    by_hand("torch", OF_A_RANK, 0, False), by_hand("torch", OF_A_RANK, 1, True),
    by_hand("tensorflow", OF_ALL_RANKS, 1, True), by_hand("tensorflow", OF_A_RANK, 0, False),
    by_hand("tensorflow", OF_A_RANK, 0, True)],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None)
def test_nothing_is_lost_and_nothing_comes_twice(need, tmp_path, pattern, framework, batch, dies,
                                                 is_packed):
    """Two ranks; one dies and is replaced, a third one comes, and leaves again. Rank 0 leads."""
    need(framework, "gloo")
    if is_packed:
        pack(pattern)
    # Names of this host: Horovod does not use one again where a worker died.
    options = elastic(tmp_path, "localhost:1\n127.0.0.1:1\n", most=3)
    run_job(tmp_path, "input_elastic", pattern, framework, json.dumps(batch), dies,
            "localhost", "127.0.0.1", "127.1", "127.0.1", options=options).expect_success()
    assert check_job(tmp_path, batch) == 1


KEPT = {"cache": "1MiB"}


@pytest.mark.parametrize("framework, options_of_open, is_packed", [
    ("torch", {}, True), by_hand("torch", {}, False), by_hand("tensorflow", {}, False),
    by_hand("torch", KEPT, False), by_hand("torch", {**KEPT, "order": "ordered"}, False),
    by_hand("tensorflow", {**KEPT, "order": "ordered"}, False)],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None)
def test_the_same_on_hosts_of_their_own(need, tmp_path, pattern, framework, options_of_open,
                                        is_packed):
    """Each has a reader, and its rank is the one that reads; what it keeps goes with it."""
    need(framework, "gloo")
    if is_packed:
        pack(pattern)
    options = elastic(tmp_path, "h1:1\nh2:1\n", most=3, interface="eth0")
    batch = {"global_batch_size": 10, "open": options_of_open}
    keys = tmp_path / "ssh"
    keys.mkdir()
    with hosts_or_skip(keys, 4) as hosts:
        hosts.on_first(run_job, tmp_path, "input_elastic", pattern, framework, json.dumps(batch),
                       1, *hosts.names, options=options, PATH=hosts.path).expect_success()
    assert check_job(tmp_path, batch) == 2


def check_job(folder: Path, batch: dict) -> int:
    """On how many hosts it has ended."""
    assert (folder / "died").exists()
    processes = notes(folder)
    steps: dict[tuple[int, int, int], list[dict]] = defaultdict(list)
    for line in (line for lines in processes for line in lines if "numbers" in line):
        steps[line["epoch"], line["start"], line["end"]].append(line)
    in_order = sorted(steps)
    assert [steps[key][0]["ranks"] for key in in_order[:12]] == [2] * 12
    assert sorted({line["ranks"] for step in steps.values() for line in step}) == [2, 3]
    assert steps[in_order[-1]][0]["ranks"] == 2
    check_steps(steps)
    check_epochs(in_order, steps)
    check_batches(in_order, steps, batch)
    ends = [lines[-1] for lines in processes if "total" in lines[-1]]
    assert len(ends) == 2 and ends[0] == ends[1]
    epochs = in_order[-1][0] + 1
    restored, step = json.loads((folder / "restored").read_text())
    assert restored == step > 0
    assert ends[0]["total"] == epochs * sum(range(SAMPLES))
    assert (ends[0]["state"]["epoch"], ends[0]["state"]["position"]) == (epochs, 0)
    return ends[0]["hosts"]


def check_steps(steps: dict[tuple[int, int, int], list[dict]]) -> None:
    """All ranks of a step have committed it, once each."""
    for step in steps.values():
        assert sorted(line["rank"] for line in step) == list(range(step[0]["ranks"]))
        assert sum(line["weight"] for line in step) == pytest.approx(step[0]["ranks"])
        assert len({line["step"] for line in step}) == 1


def check_epochs(in_order, steps) -> None:
    """They are whole, and a step begins where the one before it has ended."""
    for before, after in zip(in_order, in_order[1:]):
        expected = (before[0], before[2]) if before[2] < SAMPLES else (before[0] + 1, 0)
        assert after[:2] == expected
    assert in_order[0][:2] == (0, 0) and in_order[-1][2] == SAMPLES
    for epoch in range(in_order[-1][0] + 1):
        assert sorted(number for key in in_order if key[0] == epoch
                      for line in steps[key] for number in line["numbers"]) == list(range(SAMPLES))


def check_batches(in_order, steps, batch) -> None:
    """A rank's batch stays as it is, or that of all ranks does; but for the end of an epoch."""
    whole = [key for key in in_order if key[2] < SAMPLES - 30]
    assert {steps[key][0]["ranks"] for key in whole} == {2, 3}
    for _, start, end in whole:
        if "global_batch_size" in batch:
            assert end - start == batch["global_batch_size"] and start % (end - start) == 0
    for key in whole:
        if "batch_size" in batch:
            assert {len(line["numbers"]) for line in steps[key]} == {batch["batch_size"]}
        else:
            sizes = [len(line["numbers"]) for line in steps[key]]
            assert max(sizes) - min(sizes) <= 1


def test_fit_goes_on_when_a_rank_has_died(need, tmp_path, pattern):
    need("tensorflow", "gloo")
    options = elastic(tmp_path, "localhost:1\n127.0.0.1:1\n127.1:1\n")
    run_job(tmp_path, "input_elastic_keras", pattern, options=options).expect_success()
    assert (tmp_path / "died").exists()
    numbers = [number for lines in notes(tmp_path) for batches in lines for batch in batches
               for number in batch]
    assert sorted(numbers) == sorted(2 * list(range(SAMPLES)))
    steps = 2 * 14  # 13 x 16 and what is left
    assert [json.loads((tmp_path / f"end.{rank}").read_text()) for rank in range(2)] == [
        [2, 0, steps, steps]] * 2


def test_the_position_follows_every_state(need, tmp_path, pattern):
    need("torch", "tensorflow", "gloo")
    report, = run_job(tmp_path, "input_elastic_states", pattern, ranks=1,
                      controller="gloo").expect_success().of_ranks(1)
    assert list(report["positions"]) == [
        "ObjectState", "TorchState", "TensorFlowState", "TensorFlowKerasState", "KerasState"]
    for name, positions in report["positions"].items():
        assert positions == [30, 20, 2, 20, 40], name
    assert "remedy: hio.open(..., elastic=True)" in report["refusals"]["opened together"]
    assert "remedy: a state of hvd.elastic" in report["refusals"]["none"]


@pytest.mark.parametrize("framework", ["torch", by_hand("tensorflow")])
def test_examples_show_what_the_last_batches_weigh(need, tmp_path, framework):
    need(framework, "gloo")
    example = {"torch": "pytorch", "tensorflow": "tensorflow"}[framework]
    result = subprocess.run(
        [BIN / "horovodrun", *map(str, elastic(tmp_path, "localhost:2\n")), sys.executable,
         EXAMPLES / f"{example}_photographs_elastic.py",
         "--folder", tmp_path, "--images", "121", "--epochs", "1"],
        cwd=tmp_path, text=True, capture_output=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    # 242 samples are 2 x 64 and 2 x 57; of 57 one rank has 29.
    for part in ("128 to 184", "185 to 241"):
        for rank, size, weight in ((0, 29, "1.018"), (1, 28, "0.982")):
            assert (f"rank {rank} of 2, epoch 1: {size} of the samples {part}, weight {weight}"
                    in result.stdout)
    assert "1 epochs of 242 samples" in result.stdout
