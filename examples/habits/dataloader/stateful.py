"""torchdata's StatefulDataLoader: data.state_dict(), for any number of ranks.

    horovodrun -np 2 python examples/habits/dataloader/stateful.py

Saves after two batches, goes on with another batch size, and has each sample once.
"""

import json
import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> int:
    return int(sample.key)


with folder_of(hvd, write_tars) as folder:
    seen = []
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        for step, batch in enumerate(hio.torch.loader(data, 4, decode=decode)):
            seen += batch.tolist()
            if step == 1:
                break
        state = json.dumps(data.state_dict())
    before = len(gather(hvd, seen))
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        data.load_state_dict(json.loads(state))
        for batch in hio.torch.loader(data, 3, decode=decode, epochs=1):
            seen += batch.tolist()
    assert gather(hvd, seen) == list(range(SAMPLES))
    say(hvd, f"{before} samples, then the {SAMPLES - before} others, from {len(state)} bytes of "
             "state")
