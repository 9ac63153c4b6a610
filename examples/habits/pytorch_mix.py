"""RandomMix and with_epoch in PyTorch: compressed tars of two data sets, mixed by their shares.

    python examples/habits/pytorch_mix.py
    horovodrun -np 2 python examples/habits/pytorch_mix.py

Writes digits and noise as .tar.gz below --folder, takes three quarters of digits in loops of some
batches, and goes on from a state that was saved within one.
"""

import argparse
import io
import json
import os
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np

import horovod_opt.io as hio

SAMPLES = {"digits": 90, "noise": 40}
SHARES = {"digits": 3, "noise": 1}
LOOP = 10  # batches


def write_shards(folder: Path) -> dict[str, float]:
    """Two tars of each data set, NNNN.bin and NNNN.cls; returns their patterns and shares."""
    random = np.random.default_rng(0)
    for name, count in SAMPLES.items():
        for shard in range(2):
            with tarfile.open(folder / f"{name}-{shard}.tar.gz", "w:gz") as archive:
                for number in range(shard, count, 2):
                    add(archive, f"{number:04d}.bin", random.bytes(64))
                    add(archive, f"{number:04d}.cls", name.encode())
    return {f"{folder}/{name}-{{0,1}}.tar.gz": share for name, share in SHARES.items()}


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def decode(sample: hio.Sample) -> str:
    return bytes(sample.parts["cls"]).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    rank, size = 0, int(os.environ.get("HOROVOD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", 1)))
    if size > 1:
        import horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
    if rank == 0:
        shares = write_shards(folder)
    if size > 1:
        shares = hvd.broadcast_object(shares if rank == 0 else None)
    counts = Counter()
    with hio.open(shares, seed=1) as data:
        samples = len(data)
        loader = hio.torch.loader(data, 4, decode=decode, collate=list, epoch_batches=LOOP)
        for step, batch in enumerate(loader):
            counts.update(batch)
            if step == 6:
                break
        state = json.dumps(data.state_dict())
    loops = []
    with hio.open(shares, seed=1) as data:
        data.load_state_dict(json.loads(state))
        loader = hio.torch.loader(data, 4, decode=decode, collate=list, epoch_batches=LOOP)
        while data.epoch == 0:
            batches = list(loader)
            loops.append(len(batches))
            counts.update(sum(batches, []))
    print(f"rank {rank}: {samples} samples an epoch; loops of {loops[0]}, then {loops[1]} batches; "
          f"digits {counts['digits'] / counts.total():.2f}", flush=True)


if __name__ == "__main__":
    main()
