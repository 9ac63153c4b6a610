"""WebDataset's "train-{000..146}.tar", here the same; a glob is another way to say it.

    horovodrun -np 2 python examples/habits/webdataset/brace_range.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def numbers(pattern: str) -> list[int]:
    """Those of all samples that this rank gets in an epoch."""
    with hio.open(pattern, seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        return [number for batch in loader for number in batch.tolist()]


with folder_of(hvd, write_tars) as folder:
    of_range = numbers(f"{folder}/train-{{000..002}}.tar")
    assert gather(hvd, of_range) == list(range(SAMPLES))
    assert numbers(f"{folder}/train-*.tar") == of_range  # the same order, too
    try:
        numbers(f"{folder}/train-{{000..003}}.tar")
        raise AssertionError("train-003.tar is not there")
    except hio.DataError as error:
        assert "train-003.tar" in str(error)
    say(hvd, f"{SAMPLES} samples of train-{{000..002}}.tar, each once")
