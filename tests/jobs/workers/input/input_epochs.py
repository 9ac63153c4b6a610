"""Two epochs of training data; after each a validation on all ranks, and one on rank 0 alone."""

import dataclasses
import sys
import time

import horovod.torch as hvd
from common import RANK, report

import horovod_opt
import horovod_opt.io as hio
from horovod_opt import counters, runtime

folder, workers = sys.argv[2], int(sys.argv[3])
LATE_SECONDS = 0.05


def number(sample):
    return int.from_bytes(sample.data[:4], "little")


hvd.init()
# Before there are loaders, which set them from now on.
told = {field.name: number for number, field in enumerate(dataclasses.fields(counters.Stats), 1)
        if field.name.startswith("input_")}
runtime.set_input(told)
heard = {name: getattr(horovod_opt.stats(), name) for name in told}
training = hio.open(f"{folder}/train-*.tfrecord", seed=1, chunk_samples=8)
validation = hio.open(f"{folder}/valid.tfrecord", shuffle=False)
batches = hio.torch.loader(training, 16, decode=number, workers=workers, epochs=2, with_info=True)
checks = hio.torch.loader(validation, 16, decode=number, epochs=2)
own = None
if RANK == 0:
    own = hio.torch.loader(hio.open(f"{folder}/valid.tfrecord", shuffle=False, alone=True), 10,
                           decode=number)
steps, checked, alone = [], [], []
for epoch in range(2):
    for batch, info in batches:
        if RANK == hvd.size() - 1:
            time.sleep(LATE_SECONDS)
        # Ranks meet, as in training.
        assert hvd.allreduce(batch.sum(), op=hvd.Sum) >= 0
        steps.append((epoch, info.step, batch.tolist(), info.weight))
    checked.append([sample_number for batch in checks for sample_number in batch.tolist()])
    if own is not None:
        alone.append([sample_number for batch in own for sample_number in batch.tolist()])
read = training.stats()
training.close()
validation.close()
before = horovod_opt.stats()
hvd.shutdown()
report(steps=steps, checked=checked, alone=alone, read=read, samples=before.input_samples,
       node_bytes=before.input_node_bytes, unheard=[name for name in told
                                                    if heard[name] != told[name]])
