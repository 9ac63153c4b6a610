"""WebDataset's "a.tar::b.tar" is a list: of paths, globs and ranges.

    horovodrun -np 2 python examples/habits/webdataset/list_of_tars.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

with folder_of(hvd, write_tars) as folder:
    pattern = [folder / "train-000.tar", f"{folder}/train-{{001..002}}.tar"]
    with hio.open(pattern, seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        seen = [number for batch in loader for number in batch.tolist()]
    assert gather(hvd, seen) == list(range(SAMPLES))
    try:
        hio.open(f"{folder}/train-000.tar::{folder}/train-001.tar")
        raise AssertionError("that is WebDataset's way")
    except hio.DataError as error:
        assert "list" in str(error)
    say(hvd, f"{SAMPLES} samples of a list of tars, each once")
