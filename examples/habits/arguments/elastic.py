"""`elastic=` of open: ranks come and go, and a commit has the place in the data.

    horovodrun -np 2 python examples/habits/arguments/elastic.py
    horovodrun -np 1 --min-np 1 --max-np 3 --host-discovery-script ./hosts.sh python ...

The same script without the launcher's elastic options has the ranks that it began with.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import torch

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

with folder_of(hvd, write_tars) as folder:
    seen = {0: [], 1: []}
    model = torch.nn.Linear(1, 1)
    with hio.open(f"{folder}/*.tar", seed=1, elastic=True) as data:
        state = hvd.elastic.TorchState(model)
        hio.elastic.attach(state, data)

        @hvd.elastic.run
        def train(state) -> None:
            batches = hio.torch.loader(data, 4, decode=lambda sample: int(sample.key),
                                       with_info=True)
            while data.epoch < 2:
                for numbers, info in batches:
                    seen[info.epoch] += numbers.tolist()
                    state.commit()

        train(state)
        assert (data.epoch, data.position) == (2, 0)
    for numbers in seen.values():
        assert gather(hvd, numbers) == list(range(SAMPLES))
    say(hvd, f"two epochs of {SAMPLES} samples, with a commit after each batch")
