"""WebDataset's .tar.gz and .tar.zst, here the same: each file is unpacked once a node.

    horovodrun -np 2 python examples/habits/webdataset/compressed_tars.py

.tar.zst needs `pip install 'horovod-opt[zstd]'`.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import zstandard

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def write(folder: Path) -> None:
    write_tars(folder)
    write_tars(folder, end=".tar.gz", mode="w:gz")
    for path in sorted(folder.glob("*.tar")):
        path.with_suffix(".tar.zst").write_bytes(zstandard.compress(path.read_bytes()))


def decode(sample: hio.Sample) -> str:
    return f"{sample.key} {bytes(sample.parts['cls']).decode()}"


def seen(pattern: str) -> list[str]:
    """Keys and classes, of all ranks."""
    with hio.open(pattern, seed=1, memory="256MiB") as data:
        loader = hio.torch.loader(data, 8, decode=decode, epochs=1)
        return gather(hvd, [text for batch in loader for text in batch])


with folder_of(hvd, write) as folder:
    plain = seen(f"{folder}/*.tar")
    assert len(set(plain)) == len(plain) == SAMPLES
    assert seen(f"{folder}/*.tar.gz") == seen(f"{folder}/*.tar.zst") == plain
    say(hvd, f"{SAMPLES} samples of .tar.gz and of .tar.zst, those of .tar")
