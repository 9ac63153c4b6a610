"""In which order ranks get samples, by pipeline, without reading any: for experiments/deepio.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from horovod_opt.io.job.room import neighbours
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.choice import DataSize, Given, choose
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import take_steps
from horovod_opt.io.order.window_size import (
    RL_TARGET,
    default_chunk_samples,
    default_shards,
    window_for,
)

RANKS, NODES, BATCH = 8, 4, 32
SAMPLE_BYTES, SMALL = 110_000, 3000
FILE_SAMPLES, BUFFER, AT_ONCE = 1000, 1000, 4
MDS_SAMPLES, BLOCK = (64 << 20) // SAMPLE_BYTES, 1 << 18

Shares = np.ndarray  # int64[steps, ranks, batch]
Shuffle = Callable[[int, int, int], Shares]  # of samples, seed and epoch


def cut(streams: Sequence[np.ndarray]) -> Shares:
    """Of the stream of each rank."""
    steps = min(map(len, streams)) // BATCH
    return np.stack([stream[:steps * BATCH].reshape(steps, BATCH) for stream in streams], axis=1)


def full(samples: int, seed: int, epoch: int) -> Shares:
    return cut(np.split(np.random.default_rng((seed, epoch)).permutation(samples), RANKS))


def in_order(samples: int, seed: int, epoch: int) -> Shares:
    steps = samples // (RANKS * BATCH)
    return np.arange(steps * RANKS * BATCH).reshape(steps, RANKS, BATCH)


def hio(sample_bytes: int, nodes: int, are_files: bool = False) -> Shuffle:
    """By the product's own code."""
    def shares(samples: int, seed: int, epoch: int) -> Shares:
        size = DataSize(samples, samples * sample_bytes, are_files, lambda chunk_samples: np.full(
            -(-samples // chunk_samples), chunk_samples * sample_bytes))
        return dealt(choose(size, Given(), neighbours(RANKS, nodes), seed).order, nodes, epoch)
    return shares


def hio_before(sample_bytes: int, nodes: int) -> Shuffle:
    """By the rules of version 1, with the windows of then: up to 1.5 GiB, but no more than a
    relative entropy of 90 % takes."""
    def shares(samples: int, seed: int, epoch: int) -> Shares:
        chunk_samples = default_chunk_samples(samples, samples * sample_bytes)
        shards = default_shards(-(-samples // chunk_samples))
        window = min(window_for(RL_TARGET, samples, chunk_samples, shards), 384 // shards)
        order = Order(samples, chunk_samples, shards, window, seed, version=1)
        return dealt(order, nodes, epoch)
    return shares


def hio_by_job(part: float) -> Shuffle:
    """With deal="job", and windows of this part of the data."""
    def shares(samples: int, seed: int, epoch: int) -> Shares:
        chunk_samples = default_chunk_samples(samples, samples * SAMPLE_BYTES)
        chunks = -(-samples // chunk_samples)
        shards = default_shards(chunks)
        order = Order(samples, chunk_samples, shards, math.ceil(part * chunks / shards), seed)
        return dealt(order, 1, epoch)
    return shares


def in_groups(size: int) -> Shuffle:
    """Neighbours that stay together, as the source has them; ranks take turns."""
    def shares(samples: int, seed: int, epoch: int) -> Shares:
        groups = np.random.default_rng((seed, epoch)).permutation(samples // size)
        stream = (groups[:, np.newaxis] * size + np.arange(size)).ravel()
        return cut([stream[rank::RANKS] for rank in range(RANKS)])
    return shares


def apart(samples: int, seed: int, epoch: int) -> Shares:
    """Each node shuffles a part of the data that stays its own; its ranks take turns."""
    random, streams = np.random.default_rng((seed, epoch)), []
    for of_node in np.split(np.arange(samples // NODES * NODES), NODES):
        shuffled = random.permutation(of_node)
        streams += [shuffled[rank::RANKS // NODES] for rank in range(RANKS // NODES)]
    return cut(streams)


def dealt(order: Order, nodes: int, epoch: int) -> Shares:
    batches = Batches(order, RANKS, BATCH, last="drop")
    return cut([take_steps(order, batches, epoch, 0, batches.steps, node, rank).samples
                for node in neighbours(RANKS, nodes).nodes for rank in node])


def files_of_ranks(samples: int, random: np.random.Generator) -> np.ndarray:
    """int64[ranks, files, samples of a file]: files in a random order."""
    files = samples // FILE_SAMPLES // RANKS * RANKS
    in_files = np.arange(files * FILE_SAMPLES).reshape(files, FILE_SAMPLES)
    return in_files[random.permutation(files)].reshape(RANKS, -1, FILE_SAMPLES)


def through_buffer(stream: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A random element of a buffer makes room for the next one."""
    buffer, rest = stream[:BUFFER].copy(), stream[BUFFER:]
    result, slots = np.empty_like(stream), random.integers(0, len(buffer), len(rest))
    for i, (slot, sample) in enumerate(zip(slots.tolist(), rest.tolist())):
        result[i] = buffer[slot]
        buffer[slot] = sample
    result[len(rest):] = random.permutation(buffer)
    return result


def webdataset(samples: int, seed: int, epoch: int) -> Shares:
    random = np.random.default_rng((seed, epoch))
    return cut([through_buffer(files.ravel(), random)
                for files in files_of_ranks(samples, random)])


def tf_data(samples: int, seed: int, epoch: int) -> Shares:
    random = np.random.default_rng((seed, epoch))
    return cut([through_buffer(np.concatenate([files[i:i + AT_ONCE].T.ravel()
                                               for i in range(0, len(files), AT_ONCE)]), random)
                for files in files_of_ranks(samples, random)])


def mosaicml(samples: int, seed: int, epoch: int) -> Shares:
    """py1e: shards in a random order, a run of them for each node; a sample comes anywhere in a
    block around its shard, within its node's part. The ranks of a node take turns."""
    random = np.random.default_rng((seed, epoch))
    shards = np.split(np.arange(samples), range(MDS_SAMPLES, samples, MDS_SAMPLES))
    stream = np.concatenate([shards[i] for i in random.permutation(len(shards))])
    streams = []
    for of_node in np.split(stream[:samples // NODES * NODES], NODES):
        place = np.arange(len(of_node))
        place = random.uniform(np.maximum(place - BLOCK / 2, 0),
                               np.minimum(place + BLOCK / 2, len(of_node)))
        shuffled = of_node[np.argsort(place)]
        streams += [shuffled[rank::RANKS // NODES] for rank in range(RANKS // NODES)]
    return cut(streams)


ORDERS: dict[str, Shuffle] = {
    "full shuffle": full,
    "hio, folder": hio(SAMPLE_BYTES, NODES, are_files=True),
    "hio, records": hio(SAMPLE_BYTES, NODES),
    "hio, records, version 1": hio_before(SAMPLE_BYTES, NODES),
    "hio, small records": hio(SMALL, 1),
    "hio, small records, version 1": hio_before(SMALL, 1),
    **{f"hio, dealt to the job, R = {part}": hio_by_job(part) for part in (1, 0.5, 0.25)},
    "nodes that never exchange": apart,
    **{f"groups of {size}": in_groups(size) for size in (4, 16, 256)},
    "MosaicML Streaming": mosaicml, "tf.data": tf_data, "WebDataset": webdataset,
    "sorted data": in_order}
