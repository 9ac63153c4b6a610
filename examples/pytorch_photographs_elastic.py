"""Train on JPEG files with Horovod's elastic PyTorch: ranks come and go, and no sample is lost.

    horovodrun -np 2 --min-np 1 --host-discovery-script ./hosts.sh \
        python examples/pytorch_photographs_elastic.py

hosts.sh prints lines such as localhost:2; change them while the training runs. The batches that end
an epoch have other sizes than the others: what each of them weighs is printed.
"""

import horovod.torch as hvd
import photographs
import torch
from pytorch_photographs import decode, network, parse_arguments
from torch import nn

import horovod_opt.io as hio

COMMIT_EVERY = 5  # batches


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    folder = photographs.make(arguments.folder, arguments.images, 1)
    data = hio.open(folder / "train", seed=1, elastic=True)
    model = network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer)
    hio.elastic.attach(state, data)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        # Made for the ranks that there are now. With global_batch_size= instead, a batch of all
        # ranks together would stay as it is when ranks come or go.
        batches = hio.torch.loader(data, arguments.batch_size, decode=decode,
                                   with_info=True)
        while data.epoch < arguments.epochs:
            for (images, labels), info in batches:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels) * info.weight
                loss.backward()
                optimizer.step()
                say(info)
                if info.step % COMMIT_EVERY == 0:
                    state.commit()
            state.commit()

    def say(info: hio.BatchInfo) -> None:
        if len(data) - info.end < arguments.batch_size * hvd.size():
            print(f"rank {hvd.rank()} of {hvd.size()}, epoch {info.epoch + 1}: {info.size} of the "
                  f"samples {info.start} to {info.end - 1}, weight {info.weight:.3f}", flush=True)

    train(state)
    if hvd.rank() == 0:
        print(f"{data.epoch} epochs of {len(data)} samples", flush=True)
    data.close()


if __name__ == "__main__":
    main()
