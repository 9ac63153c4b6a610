"""DataLoader's collate_fn=: `collate=`; `decode_batch=` makes a batch of all samples at once.

    horovodrun -np 2 python examples/habits/dataloader/collate.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.nn.utils.rnn import pad_sequence

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say

SAMPLES = 30


def write(folder: Path) -> None:
    """Sequences of other lengths: n has n + 1 bytes of the value n; and one of equal lengths."""
    for name in ("unequal", "equal"):
        (folder / name).mkdir()
    for number in range(SAMPLES):
        (folder / "unequal" / f"{number:02d}.bin").write_bytes(bytes([number]) * (number + 1))
        (folder / "equal" / f"{number:02d}.bin").write_bytes(bytes([number]) * 4)


def decode(sample: hio.Sample) -> torch.Tensor:
    return torch.frombuffer(bytearray(sample.data), dtype=torch.uint8)


def pad(sequences: list[torch.Tensor]) -> torch.Tensor:
    """uint8[k, longest]."""
    return pad_sequence(sequences, batch_first=True, padding_value=255)


def stack(samples: hio.SampleBatch) -> torch.Tensor:
    """uint8[k, 4]."""
    return torch.from_numpy(samples.stacked())


with folder_of(hvd, write) as folder:
    seen = []
    with hio.open(folder / "unequal", seed=1) as data:
        for batch in hio.torch.loader(data, 4, decode=decode, collate=pad, epochs=1):
            assert ((batch != 255).sum(dim=1) == batch[:, 0] + 1).all()
            seen += batch[:, 0].tolist()
    assert gather(hvd, seen) == list(range(SAMPLES))
    with hio.open(folder / "equal", seed=1) as data:
        batches = list(hio.torch.loader(data, 4, decode_batch=stack, epochs=1))
    assert all(batch.shape[1] == 4 for batch in batches)
    assert gather(hvd, torch.cat(batches)[:, 3].tolist()) == list(range(SAMPLES))
    say(hvd, f"{SAMPLES} sequences, padded in batches; and {SAMPLES} arrays, stacked at once")
