"""WebDataset's "pipe:...": let the program write files, once a job, and open these.

    horovodrun -np 2 python examples/habits/webdataset/program_output.py
"""

import subprocess
import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def write(folder: Path) -> None:
    """What was f"pipe:cat {folder}/train-000.part", and so on."""
    write_tars(folder, end=".part")
    for part in sorted(folder.glob("*.part")):
        with open(part.with_suffix(".tar"), "wb") as output:
            subprocess.run(["cat", part], stdout=output, check=True)


with folder_of(hvd, write) as folder:
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        seen = [number for batch in loader for number in batch.tolist()]
    assert gather(hvd, seen) == list(range(SAMPLES))
    try:
        hio.open(f"pipe:cat {folder}/train-000.part")
        raise AssertionError("that is WebDataset's way")
    except hio.DataError as error:
        assert "pipe:" in str(error)
    say(hvd, f"{SAMPLES} samples of what a program wrote, each once")
