"""WebDataset's handler=wds.warn_and_continue: `bad=` of open, and hio.Skip in `decode`.

    horovodrun -np 2 python examples/habits/webdataset/skipped_samples.py
"""

import io
import sys
import tarfile
from pathlib import Path

import horovod.torch as hvd
from PIL import Image

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, add, digits

NO_IMAGE = (5, 50)


def write(folder: Path) -> None:
    with tarfile.open(folder / "train.tar", "w") as archive:
        for number, (png, _) in enumerate(digits()):
            add(archive, f"{number:04d}.png", b"no image" if number in NO_IMAGE else png)


def number_of_image(sample: hio.Sample) -> int:
    """Raises whatever PIL raises."""
    Image.open(io.BytesIO(sample.parts["png"])).load()
    return int(sample.key)


def number_or_skip(sample: hio.Sample) -> int:
    """Says which errors are no more than a sample less."""
    try:
        return number_of_image(sample)
    except Image.UnidentifiedImageError as error:
        raise hio.Skip("no image") from error


with folder_of(hvd, write) as folder:
    for bad, decode in (("skip-all", number_of_image), ("skip", number_or_skip)):
        with hio.open(folder / "train.tar", bad=bad, seed=1) as data:
            loader = hio.torch.loader(data, 8, decode=decode, epochs=1)
            seen = [number for batch in loader for number in batch.tolist()]
            data.gather_holes()
            holes = sum(len(of_epoch) for of_epoch in data.holes.values())
        assert gather(hvd, seen) == [n for n in range(SAMPLES) if n not in NO_IMAGE]
        assert holes == len(NO_IMAGE)
    say(hvd, f"{SAMPLES - holes} samples, {holes} left out and counted")
