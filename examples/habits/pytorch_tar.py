"""WebDataset's habits in PyTorch: ranges of tars, parts by extension, samples that are left out.

    python examples/habits/pytorch_tar.py

Writes tars of photographs below --folder, some of which lack their class or are no JPEG, and goes
over them twice, the second time from where a saved state says.
"""

import argparse
import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
import photographs  # noqa: E402  -- of the folder above

import horovod_opt.io as hio  # noqa: E402

SHARDS, NO_CLASS, NO_IMAGE = 4, "00003", "00010"


def write_shards(folder: Path) -> str:
    """Tars of 10 samples each, NNNNN.jpg and NNNNN.cls; returns the range of them."""
    paths = sorted((photographs.make(folder, 20, 1) / "train").glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    for shard in range(SHARDS):
        with tarfile.open(folder / f"train-{shard:03d}.tar", "w") as archive:
            for number in range(shard, len(paths), SHARDS):
                key, path = f"{number:05d}", paths[number]
                image = b"no image" if key == NO_IMAGE else path.read_bytes()
                _add(archive, f"{key}.jpg", image)
                if key != NO_CLASS:
                    _add(archive, f"{key}.cls", b"%d" % classes.index(path.parent.name))
    return f"{folder}/train-{{000..{SHARDS - 1:03d}}}.tar"


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def decode(sample: hio.Sample) -> tuple[torch.Tensor, int]:
    """(3, 64, 64) pixels, mirrored for every other sample of an epoch, and the class."""
    try:
        with Image.open(io.BytesIO(sample.parts["jpg"])) as image:
            pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    except OSError as error:
        raise hio.Skip(str(error)) from error
    if sample.random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), int(sample.parts["cls"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    options = {"parts": ("jpg", "cls"), "lacking": "skip", "bad": "skip", "seed": 1}
    pattern, samples, loss_sum = write_shards(folder), 0, 0.0
    with hio.open(pattern, **options) as data:
        for (images, labels), info in hio.torch.loader(data, 8, decode=decode, with_info=True):
            samples += len(images)
            loss_sum += float((images.mean(dim=(1, 2, 3)) - labels).square().mean()) * info.weight
            if info.step == 1:
                break
        state = json.dumps(data.state_dict())
    with hio.open(pattern, **options) as data:
        data.load_state_dict(json.loads(state))
        for images, _ in hio.torch.loader(data, 8, decode=decode, epochs=1):
            samples += len(images)
        holes = sum(map(len, data.holes.values()))
        print(f"{samples} of {len(data)} samples, {holes} left out; mean {loss_sum / 2:.3f}")


if __name__ == "__main__":
    main()
