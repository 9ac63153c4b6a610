"""`bad=` and `bad_limit=` of open: the good samples of a truncated shard, and how many may be bad.

    horovodrun -np 2 python examples/habits/arguments/bad_limit.py
"""

import os
import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def write(folder: Path) -> None:
    """Of the last tar only the first half is there, as of a download that ended."""
    write_tars(folder)
    (folder / "whole").mkdir()
    write_tars(folder / "whole")
    path = folder / "train-002.tar"
    os.truncate(path, path.stat().st_size // 2)


def read(pattern: str, decode, **options: object) -> list[int]:
    """What this rank has of an epoch."""
    with hio.open(pattern, seed=1, **options) as data:
        loader = hio.torch.loader(data, 4, decode=decode, epochs=1)
        # Of bad samples only, a batch is None.
        return [number for batch in loader if batch is not None for number in batch.tolist()]


def key(sample: hio.Sample) -> int:
    return int(sample.key)


def key_of_even(sample: hio.Sample) -> int:
    if int(sample.key) % 2:
        raise hio.Skip("odd")
    return int(sample.key)


def error_of(*arguments: object, **options: object) -> str:
    """Of all ranks; one that has had its share of the epoch before that hears of none."""
    text = ""
    try:
        read(*arguments, **options)
    except hio.DataError as error:
        text = str(error)
    return " ".join(hvd.allgather_object(text))


with folder_of(hvd, write) as folder:
    assert "train-002.tar" in error_of(f"{folder}/*.tar", key)
    good = gather(hvd, read(f"{folder}/*.tar", key, bad="skip"))
    assert 2 * SAMPLES // 3 < len(good) < SAMPLES
    assert set(range(0, SAMPLES, 3)) | set(range(1, SAMPLES, 3)) < set(good)
    half = gather(hvd, read(f"{folder}/whole/*.tar", key_of_even, bad="skip", bad_limit=0.5))
    assert half == list(range(0, SAMPLES, 2))
    assert "bad_limit" in error_of(f"{folder}/whole/*.tar", key_of_even, bad="skip")
    say(hvd, f"{len(good)} good samples of {SAMPLES}; {len(half)} with bad_limit=0.5, else an "
             "error")
