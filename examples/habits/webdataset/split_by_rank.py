"""WebDataset's shardshuffle, split_by_node and split_by_worker: nothing, whatever ranks there are.

    horovodrun -np 2 python examples/habits/webdataset/split_by_rank.py

Three tars suffice for any number of ranks and workers: samples are dealt, not files.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> int:
    return int(sample.key)


def main() -> None:
    with folder_of(hvd, write_tars) as folder:
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            batches = list(hio.torch.loader(data, 4, decode=decode, workers=2, epochs=1))
        seen = [number for batch in batches for number in batch.tolist()]
        assert gather(hvd, seen) == list(range(SAMPLES))
        assert len(set(hvd.allgather_object(len(batches)))) == 1
        say(hvd, f"{SAMPLES} samples by {hvd.size()} x 2 workers, each once; "
                 f"{len(batches)} steps on each rank")


if __name__ == "__main__":
    main()
