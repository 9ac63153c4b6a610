"""ImageFolder's extensions=: `choose=` of open, patterns of paths in the folder.

    horovodrun -np 2 python examples/habits/dataloader/extensions.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_folder


def write(folder: Path) -> None:
    """Files among the classes that are no images, as some systems leave them."""
    write_folder(folder)
    (folder / "3" / "Thumbs.db").write_bytes(b"no image")
    (folder / "7" / "notes.txt").write_bytes(b"no image")


with folder_of(hvd, write) as folder:
    with hio.open(folder, choose=["*.jpg", "*.png"], seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: sample.key, epochs=1)
        seen = gather(hvd, [key for batch in loader for key in batch])
    assert len(seen) == SAMPLES and all(key.endswith(".png") for key in seen)
    say(hvd, f"{len(seen)} of {SAMPLES + 2} files")
