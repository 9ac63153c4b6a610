"""The kernel of TensorFlow that takes steps out of the node's reader: csrc/io/tensorflow."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import tensorflow as tf

from horovod_opt.io import native
from horovod_opt.io.progress import say


@functools.lru_cache(maxsize=None)
def operations() -> Optional[Any]:
    """Its operations; None, said once, where it was not built or cannot be loaded."""
    path = _path()
    if not path.is_file():
        why = f"{path} is not there"
    else:
        try:
            return tf.load_op_library(str(path))
        except tf.errors.OpError as error:
            why = f"{path} cannot be loaded ({error.message})"
    say(f"{why}, so batches for TensorFlow are made in Python, which needs its lock for each; "
        "remedy: install horovod-opt where this TensorFlow is (in a developer's tree: make build)")
    return None


def _path() -> Path:
    """Of the one for this version of TensorFlow, which needs the library that is loaded."""
    name = f"libhorovod_opt_io_tensorflow-{tf.__version__}.so"
    return Path(native.library()._name).with_name(name)


class StepsDataset(tf.data.Dataset):
    """The steps of the pass whose queue has this number, as flat elements."""

    def __init__(self, operations: Any, number: tf.Tensor, signature: Sequence[tf.TensorSpec]):
        self._signature = tuple(signature)
        super().__init__(operations.horovod_opt_steps_dataset(
            number, output_types=[spec.dtype for spec in self._signature],
            output_shapes=[spec.shape for spec in self._signature]))

    def _inputs(self) -> list:
        return []

    @property
    def element_spec(self) -> tuple[tf.TensorSpec, ...]:
        return self._signature
