"""The input side in jobs of several processes: Horovod by MPI and Gloo, and torch.distributed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from data_sets import tfrecord
from gloo_ranks import GlooRanks
from jobs import BIN, run_job

from building import source_tree, upstream

TRAINING, VALIDATION = 403, 57
FRAME = 16  # bytes around a record
EXAMPLES = Path(__file__).parents[3] / "examples"


def record(number: int) -> bytes:
    return number.to_bytes(4, "little") + bytes(number % 700)


@pytest.fixture
def data(tmp_path) -> Path:
    """Records that begin with their numbers."""
    folder = tmp_path / "data"
    folder.mkdir()
    for file in range(2):
        tfrecord(folder / f"train-{file}.tfrecord",
                 map(record, range(TRAINING * file // 2, TRAINING * (file + 1) // 2)))
    tfrecord(folder / "valid.tfrecord", map(record, range(VALIDATION)))
    return folder


def check_epochs(reports: list[dict]) -> None:
    """Each sample came once an epoch, in equally many steps."""
    for epoch in range(2):
        steps = [[step for step in rank["steps"] if step[0] == epoch] for rank in reports]
        assert len({len(rank) for rank in steps}) == 1 and steps[0]
        assert sorted(number for rank in steps for step in rank for number in step[2]) == list(
            range(TRAINING))
        for step in zip(*steps):
            assert sum(weight for *_, weight in step) == pytest.approx(len(reports))


@pytest.mark.parametrize("controller, ranks, workers", [
    ("mpi", 2, 0), ("mpi", 3, 1), ("gloo", 2, 1), ("gloo", 4, 0)])
def test_epochs(job, need, data, controller, ranks, workers):
    need("torch")
    reports = job("input_epochs", data, workers, ranks=ranks,
                  controller=controller).expect_success().of_ranks(ranks)
    check_epochs(reports)
    for epoch in range(2):
        assert sorted(number for rank in reports for number in rank["checked"][epoch]) == list(
            range(VALIDATION))
        assert reports[0]["alone"][epoch] == list(range(VALIDATION))
    # One reader read each byte once an epoch, or left it in the page cache, but what frames the
    # records at the ends of pieces.
    whole = 2 * sum(len(record(number)) + FRAME for number in range(TRAINING))
    read = {rank["read"]["node_bytes_read"] + rank["read"]["node_cached_bytes"] for rank in reports}
    assert len(read) == 1
    assert whole - FRAME * most_pieces(reports) <= read.pop() <= whole
    assert sum(rank["samples"] for rank in reports) == (
        2 * (TRAINING + VALIDATION) + 2 * VALIDATION)
    assert reports[0]["node_bytes"] >= reports[0]["read"]["node_bytes_read"]
    assert [rank["node_bytes"] for rank in reports[1:]] == [0] * (ranks - 1)  # counted once
    assert [rank["unheard"] for rank in reports] == [[]] * ranks


def most_pieces(reports: list[dict]) -> int:
    """Of chunks, one of which may be in both files, in each of two epochs."""
    return reports[0]["read"]["node_chunks"] + 2


TORCH = """
import json, sys
from pathlib import Path
import torch
import horovod_opt.io as hio
torch.distributed.init_process_group("gloo")
with hio.open(sys.argv[1] + "/train-*.tfrecord", seed=1) as data:
    rank = torch.distributed.get_rank()
    for epoch in range(2):
        for batch in hio.torch.loader(
                data, 16, decode=lambda sample: int.from_bytes(sample.data[:4], "little")):
            for number in batch.tolist():
                print(f"{epoch} {rank} {number}\\n", end="")
    from checkpoints import restored, saved
    saves = saved(data.ranks, hio)
    Path(f"saved-{rank}").write_text(json.dumps([saves, restored(data.ranks, hio)]))
torch.distributed.destroy_process_group()
assert not any(name.startswith("horovod.") for name in sys.modules)
"""

# Shards of a DTensor, by DCP; and signals that come between two steps of one rank.
ROWS, ASKED_TO_SAVE, ASKED_TO_STOP = 7, 3, 6
CHECKPOINTS = f"""
import os, signal
from pathlib import Path
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

def shards(values):
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    return distribute_tensor(values, mesh, [Shard(0)])

def saved(ranks, hio):
    weight, saves = shards(torch.arange({ROWS}.0)), []
    with hio.BurstBuffer(f"fast-{{ranks.rank}}", "slow", ranks=ranks,
                         signals=(signal.SIGTERM, signal.SIGUSR1)) as buffer:
        for step in range(1, 100):
            weight += 1
            if step == {ASKED_TO_SAVE} and ranks.rank == 1:
                os.kill(os.getpid(), signal.SIGUSR1)
            if step == {ASKED_TO_STOP} and ranks.rank == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            asked = buffer.asked()
            if asked:
                with buffer.save(step) as folder:
                    dcp.save({{"weight": weight}}, storage_writer=dcp.FileSystemWriter(folder))
                saves.append((step, asked))
            if asked == "stop":
                return saves

def restored(ranks, hio):
    size = ranks.size if ranks else 1
    rank = ranks.rank if ranks else 0
    weight = shards(torch.zeros({ROWS})) if ranks else torch.zeros({ROWS})
    together = Path(f"together-{{size}}-{{rank}}")
    together.mkdir()
    with hio.BurstBuffer(None, "slow", ranks=ranks) as buffer:
        for part in buffer.restore_parts():
            for path in part.iterdir():
                if path.name != "MANIFEST":
                    os.symlink(path, together / path.name)
        dcp.load({{"weight": weight}}, checkpoint_id=together, no_dist=ranks is None)
    return (weight.full_tensor() if ranks else weight).tolist()
"""
# What these have saved, on three ranks, and then by one process alone.
RESTORES = """
import json, os
from pathlib import Path
import torch
import horovod_opt.io as hio
from checkpoints import restored
torch.distributed.init_process_group("gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()

def allgather(data):
    all_data = [None] * size
    torch.distributed.all_gather_object(all_data, data)
    return all_data

values = [restored(hio.Communication(rank, size, allgather), hio)]
torch.distributed.destroy_process_group()
if rank == 0:
    values.append(restored(None, hio))
Path(f"restored-{rank}").write_text(json.dumps(values))
# A thread of PyTorch's that nobody has joined may end the process by SIGABRT at its exit.
os._exit(0)
"""


def run_torch(folder: Path, ranks: int, program: str, *arguments: object) -> str:
    """By PyTorch's launcher; its output."""
    (folder / "train.py").write_text(program)
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}",
         "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--tee=0",
         "train.py", *arguments],
        cwd=folder, text=True, capture_output=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_torch_distributed_needs_no_horovod(need, data, tmp_path):
    need("torch")
    (tmp_path / "checkpoints.py").write_text(CHECKPOINTS)
    output = run_torch(tmp_path, 2, TORCH, data)
    samples = [tuple(map(int, line.split())) for line in output.splitlines() if line]
    for epoch in range(2):
        assert sorted(number for e, _, number in samples if e == epoch) == list(range(TRAINING))
        assert {rank for e, rank, _ in samples if e == epoch} == {0, 1}
    # All have stopped at one step, and its checkpoint is that of no other.
    values = [float(row + ASKED_TO_STOP) for row in range(ROWS)]
    for rank in range(2):
        assert json.loads((tmp_path / f"saved-{rank}").read_text()) == [
            [[ASKED_TO_SAVE, "save"], [ASKED_TO_STOP, "stop"]], values]
    run_torch(tmp_path, 3, RESTORES)
    for rank in range(3):
        assert json.loads((tmp_path / f"restored-{rank}").read_text()) == [values] * (
            2 if rank == 0 else 1)


DIES = """
import os, signal, sys
import torch
import horovod_opt.io as hio
folder, dies = sys.argv[2:]
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
data = hio.open(folder + "/train-*.tfrecord", seed=1, chunk_samples=8)
loader = hio.torch.loader(data, 2, with_info=True)
try:
    while True:  # one epoch after the other: it is not known when this rank is told
        for _, info in loader:
            if info.step == 5 and rank == int(dies):
                os.kill(os.getpid(), signal.SIGKILL)
except hio.ReaderEnded as ended:
    print(ended)
    os._exit(5)
"""


@pytest.mark.parametrize("dies, message", [
    (0, "the node's reader, which reads for this rank, has ended"),
    (1, "rank 1 of this node has ended without closing its data")])
def test_a_rank_that_dies_ends_the_reading_of_its_node(need, data, tmp_path, dies, message):
    """No launcher ends the other one here."""
    need("torch")
    (tmp_path / "train.py").write_text(DIES)
    ends = GlooRanks(tmp_path, tmp_path / "train.py", data, dies, ranks=2).wait(200)
    assert ends[dies].was_killed
    assert ends[1 - dies].code == 5, ends
    output = ends[1 - dies].output  # it hears of it in an epoch, or as the next one begins
    assert message in output or "the ranks cannot meet as a loop begins" in output


UPSTREAMS = """
import json, sys
folder, data = sys.argv[1:]
sys.path.insert(0, folder)
import horovod.torch as hvd
import horovod_opt.io as hio
hvd.init()
assert hvd.__file__.startswith(folder) and "horovod_opt.runtime" not in sys.modules
with hio.open(data + "/train-*.tfrecord", seed=1) as opened:
    loader = hio.torch.loader(
        opened, 16, decode=lambda sample: int.from_bytes(sample.data[:4], "little"), epochs=1)
    with open(f"{folder}/seen-{hvd.rank()}.json", "w") as file:
        json.dump([number for batch in loader for number in batch.tolist()], file)
hvd.shutdown()
"""


def test_upstreams_horovod(need, data, tmp_path):
    """Its Python files as they were released, over this project's library, in mode off."""
    need("torch")
    released = source_tree.unpack(upstream.obtain(), tmp_path / "released")
    installed = Path(importlib.util.find_spec("horovod").origin).parent
    shutil.copytree(installed, tmp_path / "horovod", ignore=shutil.ignore_patterns("*.py*"))
    for path in (released / "horovod").rglob("*.py"):
        there = tmp_path / path.relative_to(released)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
    (tmp_path / "train.py").write_text(UPSTREAMS)
    result = subprocess.run(
        [BIN / "horovodrun", "-np", "2", sys.executable, tmp_path / "train.py", tmp_path, data],
        cwd=tmp_path, text=True, capture_output=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stdout + result.stderr
    numbers = [json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in range(2)]
    assert all(numbers) and sorted(numbers[0] + numbers[1]) == list(range(TRAINING))


def test_keras_goes_on_with_another_number_of_ranks(need, data, tmp_path):
    """Two ranks stop in the second epoch, between two checkpoints; three go on with the newest.
    Rank 0 evaluates alone meanwhile, which moves nobody's position."""
    need("tensorflow", "gloo")
    checkpoints, stop = tmp_path / "checkpoints", 13 + 5  # an epoch of two ranks has 13 steps
    before = run_job(tmp_path / "before", "input_keras", data, checkpoints, stop,
                     controller="gloo").expect_success().of_ranks(2)
    assert [rank["place"] for rank in before] == [[1, 5 * 32]] * 2
    versions = [path.name for path in checkpoints.iterdir() if path.name[0] != "."]
    assert versions == [str(TRAINING + 4 * 32)]
    after = run_job(tmp_path / "after", "input_keras", data, checkpoints, 0, ranks=3,
                    controller="gloo").expect_success().of_ranks(3)
    assert [rank["place"] for rank in after] == [[3, 0]] * 3
    batches = [batch for rank in before for batch in rank["batches"][:stop - 1]]
    batches += [batch for rank in after for batch in rank["batches"]]
    for epoch in range(3):
        numbers = [number for when, batch in batches if when == epoch for number in batch]
        assert sorted(numbers) == list(range(TRAINING))
    assert before[0]["alone"] == [VALIDATION] and after[0]["alone"] == [VALIDATION] * 2
    steps = {len(rank["batches"]) for rank in after}
    assert len(steps) == 1
    assert after[0]["iterations"] == stop - 1 + steps.pop()


def test_nodes_keep_what_they_read(need, data, tmp_path):
    """Two ranks with PyTorch, each a node of its own, stop in the second epoch; three go on with
    TensorFlow. Each job reads storage once."""
    need("torch", "tensorflow", "gloo")
    state, stop = tmp_path / "state.json", 13 + 5  # an epoch of two ranks has 13 steps
    whole = sum(len(record(number)) + FRAME for number in range(TRAINING))
    jobs = [run_job(tmp_path / framework, "input_cache", data, framework, state, batches,
                    ranks=ranks, controller="gloo").expect_success().of_ranks(ranks)
            for framework, ranks, batches in (("torch", 2, stop), ("tensorflow", 3, 0))]
    for epoch in range(3):
        numbers = [number for job in jobs for rank in job for when, batch in rank["steps"]
                   if when == epoch for number in batch]
        assert sorted(numbers) == list(range(TRAINING))
    for job in jobs:
        read = {name: sum(rank["read"][name] for rank in job) for name in job[0]["read"]}
        assert whole - FRAME * TRAINING <= read["node_bytes_read"] <= whole
        assert whole - FRAME * TRAINING <= read["kept_bytes"] <= whole
        assert read["peer_bytes"] == read["served_bytes"] > 0
        assert read["fallback_bytes"] == 0
        assert [rank["kept"] for rank in job] == [rank["read"]["kept_bytes"] for rank in job]


@pytest.mark.parametrize("framework, options", [("torch", ("--workers", "1")), ("tensorflow", ())])
def test_example(need, tmp_path, framework, options):
    """On real photographs, with two ranks."""
    need(framework)
    example = {"torch": "pytorch", "tensorflow": "tensorflow"}[framework] + "_photographs.py"
    result = subprocess.run(
        [BIN / "horovodrun", "-np", "2", sys.executable, EXAMPLES / example,
         "--folder", tmp_path, "--images", "120", "--epochs", "2", *options],
        cwd=tmp_path, text=True, capture_output=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HOROVOD_OPT_MODE": "topo"})
    assert result.returncode == 0, result.stderr
    assert "epoch 2: " in result.stdout
    assert "rank 0 took 240 samples, its node read" in result.stdout
