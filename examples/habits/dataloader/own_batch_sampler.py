"""A batch_sampler= of one's own: PyTorch's DataLoader, which then reads sample by sample.

    horovodrun -np 2 python examples/habits/dataloader/own_batch_sampler.py

Who says which samples come also divides them among ranks, and keeps the place.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
from torch.utils.data import DataLoader

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_folder


class OneClass:
    """Batches of up to four samples of one class."""

    def __init__(self, labels: list[int], rank: int, ranks: int):
        of_class = {label: [i for i, other in enumerate(labels) if other == label]
                    for label in sorted(set(labels))}
        batches = [numbers[i:i + 4] for numbers in of_class.values()
                   for i in range(0, len(numbers), 4)]
        self._batches = batches[rank::ranks]

    def __iter__(self):
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def decode(sample: hio.Sample) -> tuple[str, int]:
    return sample.key, sample.label


with folder_of(hvd, write_folder) as folder:
    seen = []
    with hio.open(folder) as data:
        dataset = hio.torch.Dataset(data, decode)
        sampler = OneClass([dataset[i][1] for i in range(len(data))], hvd.rank(), hvd.size())
        for keys, labels in DataLoader(dataset, batch_sampler=sampler):
            assert len(set(labels.tolist())) == 1
            seen += keys
    seen = gather(hvd, seen)
    assert len(set(seen)) == len(seen) == SAMPLES
    say(hvd, f"{SAMPLES} samples in batches of one class")
