"""tf.data over TFRecord files: each rank reads files of its own, some at a time, through a buffer
that is shuffled."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from horovod_lab.io.peers.stream import Place, Stream

BUFFER = 1000  # samples, as for WebDataset
FILES_AT_A_TIME = 4


class TfData(Stream):
    def __init__(self, place: Place):
        files = sorted(map(str, place.folder.glob("*.tfrecord")))[place.rank::place.ranks]
        self._batches = (
            tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=1)
            .interleave(tf.data.TFRecordDataset, cycle_length=FILES_AT_A_TIME)
            .shuffle(BUFFER, seed=1).batch(place.batch).prefetch(tf.data.AUTOTUNE))

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        for batch in self._batches.as_numpy_iterator():
            yield batch.tolist()
