"""Every pipeline delivers every record, to one of the ranks, in each epoch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import FOLDER
from horovod_lab.io.peers import PEERS

ROOT = Path(__file__).parents[4]
OTHERS = ROOT / FOLDER / "bin" / "python"
HERE = [name for name, peer in PEERS.items() if set(peer.needs) <= {"torch"}]
THERE = [name for name in PEERS if name not in HERE]
RECORDS, BATCH = Records(2048, 100), 16
# Prints the numbers of two epochs, one list for each.
PROGRAM = """
import json, sys, tempfile
from pathlib import Path
from horovod_lab.io.data.records import Records
from horovod_lab.io.peers import PEERS, stream_of
from horovod_lab.io.peers.stream import Place
if __name__ == "__main__":
    peer, records = PEERS[sys.argv[1]], Records(2048, 100)
    stream = stream_of(peer, Place(Path(sys.argv[2]), 2048, 16, peer.workers, 0, 1,
                                   Path(tempfile.mkdtemp())))
    epochs = [[records.numbers(batch) for batch in stream.epoch(epoch)] for epoch in (0, 1)]
    stream.close()
    print(json.dumps(epochs))
"""


def epochs_of(name: str, python: str | Path, folder: Path) -> list[list[list[int]]]:
    """The numbers in each batch of two epochs."""
    form = PEERS[name].format
    subprocess.run([python, "-m", "horovod_lab.io.data.data_folder", form, folder / form,
                    str(RECORDS.count), str(RECORDS.size)], check=True)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.run([python, program, name, folder / form], check=True, text=True,
                             stdout=subprocess.PIPE)
    return json.loads(process.stdout.splitlines()[-1])


def check(name: str, epochs: list[list[list[int]]]) -> None:
    first, second = ([number for batch in epoch for number in batch] for epoch in epochs)
    assert sorted(first) == sorted(second) == list(range(RECORDS.count))
    assert [len(batch) for batch in epochs[0]] == [BATCH] * (RECORDS.count // BATCH)
    if name in ("py-lmdb-in-order", "py-lmdb-strided"):
        assert first == second == list(range(RECORDS.count))
    else:
        assert first != second != sorted(second)


@pytest.mark.parametrize("name", HERE)
def test_with_what_is_here(name, tmp_path):
    if "torch" in PEERS[name].needs:
        pytest.importorskip("torch")
    check(name, epochs_of(name, sys.executable, tmp_path))


@pytest.mark.parametrize("name", THERE)
def test_with_the_peers_environment(name, tmp_path):
    if not OTHERS.exists():
        pytest.skip("needs .venv-peers: make peers")
    check(name, epochs_of(name, OTHERS, tmp_path))


def test_a_pipeline_with_data_is_prepared_once_for_all_that_read_it(tmp_path):
    folders = {data_folder.folder_of(tmp_path, peer.format, RECORDS) for peer in PEERS.values()}
    assert len(folders) == len({peer.format for peer in PEERS.values()}) == 7
