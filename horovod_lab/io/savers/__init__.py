"""Ways to save a checkpoint, each as its documentation says: which of them lose data in a crash."""

from __future__ import annotations

from typing import NamedTuple

WEIGHTS = 16384  # float32: 64 KiB
OLD, NEW = "old", "new"  # marks: the first version is saved, the second one
# What a loader finds.
OUTCOMES = NEW_FOUND, OLD_FOUND, NOTHING, ERROR, OTHER = ("new", "old", "nothing", "error",
                                                          "other bytes")


class Saver(NamedTuple):
    """`module` has a class of this name; `distributions`: whose versions are told; `promise`: what
    its documentation says of crashes; `keeps`: what is there once the second version is saved."""

    label: str
    module: str
    name: str
    distributions: tuple[str, ...]
    keeps: str
    promise: str


NONE = "none"
SAVERS = {
    "torch": Saver("torch.save, one name", "torch_savers", "OneName", ("torch",), "one name", NONE),
    "torch-keep-1": Saver("torch.save, then unlink", "torch_savers", "KeepOne", ("torch",),
                          "the newest", NONE),
    "dcp": Saver("DCP save, one folder", "torch_savers", "Distributed", ("torch",), "one name",
                 "sync_files=True: files are synced"),
    "dcp-keep-1": Saver("DCP save, then rmtree", "torch_savers", "DistributedKeepOne", ("torch",),
                        "the newest", "sync_files=True: files are synced"),
    "dcp-async": Saver("DCP async_save, one folder", "torch_savers", "Asynchronous", ("torch",),
                       "one name", "saved when the future is done"),
    "lightning": Saver("Lightning ModelCheckpoint", "torch_savers", "Lightning",
                       ("lightning", "torch"), "the newest", NONE),
    "keras": Saver("Keras ModelCheckpoint", "keras_savers", "ModelCheckpoint",
                   ("keras", "tensorflow-cpu"), "one name", NONE),
    "tf": Saver("tf.train.CheckpointManager", "keras_savers", "Manager", ("tensorflow-cpu",),
                "the newest", NONE),
    "orbax": Saver("orbax CheckpointManager", "orbax_savers", "Manager",
                   ("orbax-checkpoint", "jax"), "the newest",
                   "atomic: a step is there, or it is not"),
    "hio-torch": Saver("hio.torch.Resume", "own_savers", "TorchResume", ("torch",), "the newest",
                       "B1 to B4"),
    "hio-keras": Saver("hio.keras.Resume", "own_savers", "KerasResume",
                       ("keras", "tensorflow-cpu"), "the newest", "B1 to B4"),
    "hio-buffer": Saver("hio.BurstBuffer", "own_savers", "Buffer", (), "the newest", "B1 to B4"),
}

# Ways that are timed, on two storages of known speeds: tiers.py.
DIRECT, BURST, MEMORY, ASYNC = "direct", "burst", "burst-memory", "async"
TIMED = {DIRECT: "torch.save and fsync, slow", BURST: "BurstBuffer, fast and slow",
         MEMORY: "BurstBuffer, memory and slow", ASYNC: "DCP async_save, slow"}
# A tenth of 600 MB at 40 MiB/s, and a fast storage of 3.8 times that (Chien et al., Table I): the
# same times, and the storages' server, a process, is not what is measured.
VERSION_BYTES, SLOW_SPEED, FAST_SPEED = 60 << 20, 4 << 20, 3.8 * (4 << 20)
VERSIONS, TRAINING_SECONDS = 3, 16  # between versions, in which one of them is copied
