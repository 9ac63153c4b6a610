"""`alone=` of open: rank 0 evaluates, and no other rank has part in it.

    horovodrun -np 2 python examples/habits/arguments/evaluation_alone.py

The training goes on in the epoch that it had left for it, as load_state_dict() says on all ranks.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_folder, write_tars


def write(folder: Path) -> None:
    (folder / "validation").mkdir()
    write_tars(folder)
    write_folder(folder / "validation")


def evaluate(folder: Path) -> int:
    with hio.open(folder, shuffle=False, alone=True) as data:
        return sum(map(len, hio.torch.loader(data, 16, decode=lambda sample: sample.label,
                                             epochs=1)))


with folder_of(hvd, write) as folder:
    seen, count = [], 0
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        loader = hio.torch.loader(data, 4, decode=lambda sample: int(sample.key))
        for step, batch in enumerate(loader):
            seen += batch.tolist()
            if step == 1:
                break
        data.load_state_dict(data.state_dict())
        if hvd.rank() == 0:
            count = evaluate(folder / "validation")
        for batch in loader:
            seen += batch.tolist()
    assert gather(hvd, seen) == list(range(SAMPLES))
    assert hvd.allgather_object(count) == [SAMPLES] + [0] * (hvd.size() - 1)
    say(hvd, f"{count} files by rank 0 alone, within an epoch of {SAMPLES} samples")
