"""`index=`, `checksums=` and `threads=` of open: where the index is, and what it costs.

    horovodrun -np 2 python examples/habits/arguments/index_file.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def write(folder: Path) -> None:
    (folder / "data").mkdir()
    write_tars(folder / "data")


def seen(**options: object) -> list[int]:
    with hio.open(f"{folder}/data/*.tar", seed=1, **options) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        return gather(hvd, [number for batch in loader for number in batch.tolist()])


with folder_of(hvd, write) as folder:
    index = folder / "train.hoi"
    assert seen(index=index, checksums=False, threads=2) == list(range(SAMPLES))
    without = index.stat()
    assert seen(index=index, checksums=False) == list(range(SAMPLES))
    assert index.stat().st_mtime_ns == without.st_mtime_ns  # found, not built again
    assert [path.name for path in (folder / "data").iterdir() if path.suffix == ".hoi"] == []
    assert seen() == list(range(SAMPLES))
    (beside,) = (folder / "data").glob(".*.hoi")
    say(hvd, f"an index of {without.st_size:,} bytes where it was wanted; with checksums, beside "
             f"the data, of {beside.stat().st_size:,}")
