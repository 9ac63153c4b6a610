"""At each call that all ranks make, the last rank comes only when another has said that it waits.

FOLDER LAUNCHER DATA: LAUNCHER is "horovod", "tensorflow" (Horovod's, with data sets of TensorFlow)
or "gloo" (torch.distributed). Reports each line that was said.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from input_job import FOLDER, RANK, say, start

launcher, path = sys.argv[2:4]
if launcher == "tensorflow":
    import horovod.tensorflow as hvd

    hvd.init()
    size = hvd.size()
else:
    size = start(launcher)

import horovod_opt.io as hio  # noqa: E402  -- after the framework
from horovod_opt.io.job import attendance, patience  # noqa: E402
from horovod_opt.io.node_reader import node_cache, reader_process  # noqa: E402

patience.SECONDS = 2.0
node_cache.PATIENCE_MS = 100
reader_process.LEAVE_CACHED = False  # so that memory is what ranks wait for
LAST = size - 1
place = "open"


def hear(text: str) -> None:
    say(place=place, text=text)
    Path(FOLDER, f"said-{place}").touch()


attendance.say = patience.say = hear


def come(here: str) -> None:
    """The last rank waits until another one has said so; the others come together."""
    global place
    place = here
    Path(FOLDER, f"at-{here}-{RANK}").touch()
    awaited = [f"said-{here}"] if RANK == LAST else [f"at-{here}-{rank}" for rank in range(LAST)]
    end = time.monotonic() + 180
    while not all(Path(FOLDER, name).exists() for name in awaited):
        assert time.monotonic() < end, f"rank {RANK} waits for {awaited}"
        time.sleep(0.02)


come("open")
with hio.open(path, shuffle=False, memory=400_000, chunk_samples=1) as data:
    come("make")
    if launcher == "tensorflow":
        loader = hio.tensorflow.dataset(data, 1, epochs=1)
    else:
        loader = hio.torch.loader(data, 1, prefetch=0, epochs=1)
    come("loop")
    loop = iter(loader)
    steps = int(next(loop) is not None)
    come("behind")
    for _ in loop:
        steps += 1
    come("holes")
    data.gather_holes()
say(steps=steps)
