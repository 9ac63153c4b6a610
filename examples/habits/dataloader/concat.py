"""ConcatDataset and ChainDataset: a list of patterns; of folders of files, the folder above them.

    horovodrun -np 2 python examples/habits/dataloader/concat.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, digits, write_tars


def write(folder: Path) -> None:
    write_tars(folder, "first")
    write_tars(folder, "second")
    for name, numbers in (("a", range(20)), ("b", range(20, 40)), ("other", range(40, SAMPLES))):
        (folder / "files" / name).mkdir(parents=True)
        for number in numbers:
            (folder / "files" / name / f"{number:04d}.png").write_bytes(digits()[number][0])


def seen(pattern: object, **options: object) -> list[str]:
    with hio.open(pattern, seed=1, **options) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: sample.key, epochs=1)
        return gather(hvd, [key for batch in loader for key in batch])


with folder_of(hvd, write) as folder:
    both = seen([f"{folder}/first-*.tar", f"{folder}/second-*.tar"])
    assert both == sorted(2 * [f"{number:04d}" for number in range(SAMPLES)])
    files = seen(folder / "files", choose=["a/*", "b/*"])
    assert files == [f"{'ab'[number // 20]}/{number:04d}.png" for number in range(40)]
    say(hvd, f"{len(both)} samples of two sets of tars, {len(files)} of two folders")
