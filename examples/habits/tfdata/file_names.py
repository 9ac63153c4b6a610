"""File names beside records: `with_samples=True`.

    horovodrun -np 2 python examples/habits/tfdata/file_names.py

`info` has keys, numbers and files of a batch's samples: paths in a folder, and of tars the keys.
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, SHARDS, digits, write_folder, write_records


def write(folder: Path) -> None:
    for name in ("files", "records"):
        (folder / name).mkdir()
    write_folder(folder / "files")
    write_records(folder / "records")


with folder_of(hvd, write) as folder:
    keys, files = [], []
    with hio.open(folder / "files", seed=1) as data:
        for (_, labels), info in hio.tensorflow.dataset(data, 8, with_samples=True, epochs=1):
            keys += [key.decode() for key in info["keys"].numpy()]
    assert gather(hvd, keys) == sorted(
        f"{label}/{number:04d}.png" for number, (_, label) in enumerate(digits()))
    with hio.open(f"{folder}/records/*.tfrecord", seed=1) as data:
        for _, info in hio.tensorflow.dataset(data, 8, with_samples=True, epochs=1):
            files += [Path(file.decode()).name for file in info["files"].numpy()]
            assert not any(info["keys"].numpy())  # a TFRecord has none
    names = [f"train-{shard:03d}.tfrecord" for shard in range(SHARDS)]
    assert gather(hvd, files) == sorted(SAMPLES // SHARDS * names)
    say(hvd, f"{SAMPLES} paths of files, and the file of each of {SAMPLES} records")
