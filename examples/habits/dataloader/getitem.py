"""Dataset.__getitem__: hio.torch.Dataset(data, decode)[i], the i-th sample of the data.

    horovodrun -np 2 python examples/habits/dataloader/getitem.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, digits, write_tars


def decode(sample: hio.Sample) -> tuple[int, bytes]:
    return int(sample.key), bytes(sample.parts["png"])


with folder_of(hvd, write_tars) as folder:
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        dataset = hio.torch.Dataset(data, decode)
        items = [dataset[i] for i in range(len(dataset))]
    # In the order of the files, whatever the seed; any rank may have any sample.
    assert [number for number, _ in items] == [
        number for shard in range(3) for number in range(shard, SAMPLES, 3)]
    assert all(png == digits()[number][0] for number, png in items)
    assert len(gather(hvd, [number for number, _ in items])) == hvd.size() * SAMPLES
    say(hvd, f"{len(items)} samples by their numbers")
