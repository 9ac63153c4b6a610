"""WebDataset's RandomMix: a dict of patterns and their shares.

    horovodrun -np 2 python examples/habits/webdataset/random_mix.py

Sets of several formats have a loader each, and a loop that takes of them in turn.
"""

import sys
import tarfile
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import add, digits

SHARES = {"web": 3, "books": 1}


def write(folder: Path) -> None:
    """Two sets of tars with as many samples, and a folder of files."""
    (folder / "pages").mkdir()
    for name in SHARES:
        with tarfile.open(folder / f"{name}-000.tar", "w") as archive:
            for number in range(len(digits())):
                add(archive, f"{number:04d}.txt", name.encode())
    for number, (png, _) in enumerate(digits()):
        (folder / "pages" / f"{number:04d}.png").write_bytes(png)


def decode(sample: hio.Sample) -> str:
    return bytes(sample.data).decode()


def batches_without_end(loader):
    """One epoch after the other."""
    while True:
        yield from loader


with folder_of(hvd, write) as folder:
    shares = {f"{folder}/{name}-*.tar": share for name, share in SHARES.items()}
    with hio.open(shares, seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=decode, epochs=1)
        seen = gather(hvd, [name for batch in loader for name in batch])
    assert {name: seen.count(name) * 4 / len(seen) for name in SHARES} == SHARES

    with hio.open(f"{folder}/web-*.tar", seed=1) as tars, hio.open(folder / "pages") as pages:
        of_tars = batches_without_end(hio.torch.loader(tars, 4, decode=decode))
        of_pages = batches_without_end(hio.torch.loader(pages, 4, decode=lambda sample: "page"))
        mixed = [next(of_pages if step % 4 == 3 else of_tars)[0] for step in range(40)]
    assert mixed == ["web", "web", "web", "page"] * 10
    say(hvd, f"an epoch of {len(seen)} samples, three quarters of one set; then tars and files "
             "in turn")
