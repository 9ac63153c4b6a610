"""Train a small CNN on JPEG files with Horovod, PyTorch and this project's input side.

    horovodrun -np 2 python examples/pytorch_photographs.py
    HOROVOD_OPT_MODE=topo horovodrun -np 4 python examples/pytorch_photographs.py --workers 1

Each node reads each byte once an epoch, and each sample is seen exactly once, by one rank.
"""

import argparse
import io
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import photographs
import torch
from PIL import Image
from torch import nn

import horovod_opt.io as hio


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    parser.add_argument("--images", type=int, default=1000, help="of each class (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="of a rank (%(default)s)")
    parser.add_argument("--workers", type=int, default=0,
                        help="processes of a rank that decode (0: a thread does)")
    return parser.parse_args()


def decode(sample: hio.Sample) -> tuple[torch.Tensor, int]:
    """(3, 64, 64) pixels, mirrored for every other sample of an epoch, and the class."""
    with Image.open(io.BytesIO(sample.data)) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    if sample.random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), sample.label


def network() -> nn.Module:
    """(batch, 3, 64, 64) pixels to (batch, 2) logits."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 6 * 6, 2))


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    folder = photographs.make(arguments.folder, arguments.images, arguments.images // 4)
    training = hio.open(folder / "train", seed=1)
    validation = hio.open(folder / "validation", shuffle=False)
    batches = hio.torch.loader(training, arguments.batch_size, decode=decode,
                               workers=arguments.workers, epochs=arguments.epochs,
                               with_info=True)
    test_batches = hio.torch.loader(validation, 64, decode=decode, epochs=arguments.epochs)

    model = network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9),
        named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(arguments.epochs):
        for (images, labels), info in batches:
            optimizer.zero_grad()
            # The last batches may have other sizes: the weight makes every sample count alike.
            loss = nn.functional.cross_entropy(model(images), labels) * info.weight
            loss.backward()
            optimizer.step()
        correct = torch.zeros(())
        with torch.no_grad():
            for images, labels in test_batches:
                correct += (model(images).argmax(dim=1) == labels).sum()
        accuracy = hvd.allreduce(correct, op=hvd.Sum).item() / len(validation)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: {accuracy:.1%} of the validation files", flush=True)
    stats = training.stats()
    if hvd.rank() == 0:
        print(f"rank 0 took {stats['samples']} samples, its node read "
              f"{stats['node_bytes_read']:,} bytes in {stats['node_requests']} requests; the "
              f"training waited {stats['training_wait_seconds']:.2f} s for its input")
    training.close()
    validation.close()


if __name__ == "__main__":
    main()
