"""WebDataset's .to_tuple("png", "cls") and .rename: parts by extension.

    horovodrun -np 2 python examples/habits/webdataset/named_parts.py
"""

import sys
import tarfile
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import add, digits


def write(folder: Path) -> None:
    """Three parts, of which two are wanted."""
    with tarfile.open(folder / "train.tar", "w") as archive:
        for number, (png, label) in enumerate(digits()):
            add(archive, f"{number:04d}.png", png)
            add(archive, f"{number:04d}.cls", b"%d" % label)
            add(archive, f"{number:04d}.json", b"{}")


def decode(sample: hio.Sample) -> dict[str, object]:
    assert list(sample.parts) == ["cls", "png"]
    return {"label": int(sample.parts["cls"]), "bytes": len(sample.parts["png"])}


with folder_of(hvd, write) as folder:
    with hio.open(folder / "train.tar", parts=("cls", "png"), seed=1) as data:
        seen = []
        for batch in hio.torch.loader(data, 8, decode=decode, epochs=1):
            seen += zip(batch["label"].tolist(), batch["bytes"].tolist())
    seen = gather(hvd, seen)
    assert seen == sorted((label, len(png)) for png, label in digits())
    say(hvd, f"two of three parts of {len(seen)} samples")
