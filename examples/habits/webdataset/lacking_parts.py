"""Samples of tars without all parts: refused, skipped, or kept without them.

    horovodrun -np 2 python examples/habits/webdataset/lacking_parts.py
"""

import sys
import tarfile
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, add, digits

WITHOUT_CLASS = (3, 14, 15)


def write(folder: Path) -> None:
    with tarfile.open(folder / "train.tar", "w") as archive:
        for number, (png, label) in enumerate(digits()):
            add(archive, f"{number:04d}.png", png)
            if number not in WITHOUT_CLASS:
                add(archive, f"{number:04d}.cls", b"%d" % label)


def decode(sample: hio.Sample) -> tuple[int, int]:
    """Which digit it is, and its class; -1: nobody knows."""
    return int(sample.key), int(sample.parts.get("cls", -1))


def seen(lacking: str) -> list[tuple[int, int]]:
    with hio.open(folder / "train.tar", lacking=lacking, seed=1) as data:
        batches = list(hio.torch.loader(data, 8, decode=decode, collate=list, epochs=1))
        return gather(hvd, sum(batches, []))


with folder_of(hvd, write) as folder:
    skipped, kept = seen("skip"), seen("keep")
    assert [number for number, _ in kept] == list(range(SAMPLES))
    assert [number for number, label in kept if label == -1] == list(WITHOUT_CLASS)
    assert skipped == [(number, label) for number, label in kept if label != -1]
    try:
        hio.open(folder / "train.tar")
        raise AssertionError("three samples lack a part")
    except hio.DataError as error:
        assert "cls" in str(error)
    say(hvd, f"{len(skipped)} samples with all parts, {len(kept)} with or without")
