"""DataLoader(dataset, 64, shuffle=True): hio.torch.loader(data, 64), or DataLoader itself.

    horovodrun -np 2 python examples/habits/dataloader/shuffled_batches.py

Both take the same samples in the same order.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
from torch.utils.data import DataLoader

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import write_folder


def decode(sample: hio.Sample) -> str:
    return sample.key


def main() -> None:
    with folder_of(hvd, write_folder) as folder:
        with hio.open(folder, seed=1) as data:
            ours = list(hio.torch.loader(data, 8, decode=decode, epochs=1))
        with hio.open(folder, seed=1) as data:
            theirs = list(DataLoader(hio.torch.Dataset(data, decode), num_workers=1,
                                     batch_sampler=hio.torch.BatchSampler(data, 8, epochs=1)))
        assert ours == theirs
        seen = gather(hvd, [key for batch in ours for key in batch])
        files = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.png"))
        assert seen == files and [key for batch in ours for key in batch] != files
        say(hvd, f"{len(files)} samples, each once, in {len(ours)} batches by both loaders")


if __name__ == "__main__":
    main()
