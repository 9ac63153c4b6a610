"""TFRecordDataset's compression_type="GZIP" and "ZLIB": nothing, files say so themselves.

    horovodrun -np 2 python examples/habits/tfdata/compressed_records.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records


def write(folder: Path) -> None:
    for compression in ("", "GZIP", "ZLIB"):
        write_records(folder, compression or "NONE", compression)


def seen(compression: str) -> list[bytes]:
    """Records, of all ranks."""
    with hio.open(f"{folder}/{compression}-*.tfrecord", seed=1, memory="256MiB") as data:
        return gather(hvd, [record for batch in hio.tensorflow.dataset(data, 8, epochs=1)
                            for record in batch.numpy()])


with folder_of(hvd, write) as folder:
    plain = seen("NONE")
    assert len(set(plain)) == len(plain) == SAMPLES
    assert seen("GZIP") == seen("ZLIB") == plain
    say(hvd, f"{SAMPLES} records by GZIP and by ZLIB, those of plain files")
