"""`dataset`: this rank's batches as a tf.data.Dataset."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, require_flags
from horovod_opt.io.step_source import StepSource
from horovod_opt.io.tensorflow.elements import Decode, Elements
from horovod_opt.io.tensorflow.generator import dataset_from_generator
from horovod_opt.io.tensorflow.kernel import operations
from horovod_opt.io.tensorflow.passes import Passes
from horovod_opt.io.tensorflow.queues import dataset_from_queues


def dataset(data: Data, batch_size: Optional[int] = None, *,
            global_batch_size: Optional[int] = None, last: str = "spread",
            epochs: Optional[int] = None, epoch_batches: Optional[int] = None,
            with_info: bool = False, with_samples: bool = False,
            decode: Optional[Decode] = None) -> tf.data.Dataset:
    """This rank's batches of the records as they are stored; parse them with `.map()`, or each
    record with `decode`.

    Every rank makes one with the same arguments, and loops over it equally often: each loop is an
    epoch, and after `data.load_state_dict()` what is left of one. Its cardinality is the number of
    batches of a whole loop, equal on all ranks.

    A batch is a tensor of records, tf.string[k]; in a folder of classes (records, labels) with
    int64[k]; where samples have several parts, a dict of such tensors by part. k differs between
    batches by `last`. With `with_info` it is (batch, info): a dict of scalars, which are those of
    BatchInfo, float32 for `weight` and int64 for the others. With `with_samples` info also has
    `numbers` (int64[k]), `keys` and `files` (tf.string[k]) of the samples, which need Python's lock
    for each batch.

    Batches are made without Python's lock where the kernel for this TensorFlow was built; where it
    was not, which is said once, each needs the lock while it is made.

    TensorFlow fetches ahead, so the position in `data` does not move as batches are fetched:
    `hio.keras.Resume(data)` counts those that fit() has trained on; `data.taken(info)` does in a
    loop of one's own, after each batch or after every k-th. Until one of them is used, each loop is
    the next epoch.

    Args:
        data: what `hio.open` returned.
        batch_size: samples of a rank's batch; or
        global_batch_size: of all ranks' together, which stays as it is when ranks come or go.
        last: of the remainder of an epoch: "spread", "drop" or "mask".
        epochs: after so many loops it ends, and frees what it has.
        epoch_batches: a loop has so many batches instead of an epoch's, and the next one goes on
            behind the last batch that was taken, over the ends of the data's epochs.
        with_info: batches say which they are.
        with_samples: they also say which samples they have.
        decode: a function of TensorFlow's operations: gets a sample as a batch has several, a
            scalar or (record, label) or a dict, and returns tensors, of equal shapes for all
            samples. Samples of a batch are decoded in parallel, and it stays as large as it is.

    Raises:
        InputError: an argument cannot be used, or differs between ranks.
    """
    require_flags(with_info=with_info, with_samples=with_samples)
    if decode is not None and data.bad == "skip-all":
        raise InputError(
            'bad="skip-all" leaves out what decode= cannot decode, which decode= of TensorFlow, in '
            'its own threads, cannot; remedy: bad="skip" for damaged records, and a decode= that '
            "returns a mark for what it cannot decode, by which the loss weighs it with 0")
    source = StepSource(data, batch_size, global_batch_size, last, epochs, epoch_batches)
    elements = Elements(data.index, with_info, with_samples, decode)
    # The kernel hands out what is stored, so not what has to be expanded.
    passes, kernels = Passes(data, source), operations() if data.index.raw_size is None else None
    flat = (dataset_from_generator(passes, elements) if kernels is None
            else dataset_from_queues(kernels, passes, elements))
    batches = flat.map(elements.shape, num_parallel_calls=1, deterministic=True)
    batches.hio_source = source  # by which Resume knows it
    return batches
