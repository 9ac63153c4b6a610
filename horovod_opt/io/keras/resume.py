"""A callback that counts what fit() has trained on, and saves it with the weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

import keras

from horovod_opt.io.batch_counter import BatchCounter
from horovod_opt.io.checkpoints.signals import STOP
from horovod_opt.io.checkpoints.training import TrainingCheckpoints
from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.job.agreement import require_equal
from horovod_opt.io.keras.pipeline import find_fit, require_countable
from horovod_opt.io.node_reader.node_cache import SAME_PLACE
from horovod_opt.io.step_source import StepSource

WEIGHTS = "model.weights.h5"
_EPOCH_IS_OVER = "the epoch is over"  # of stop_training: as good as True for fit()


class Resume(keras.callbacks.Callback):
    """`model.fit(hio.tensorflow.dataset(data, 64).map(parse), callbacks=[Resume(data, folder)])`.

    On every rank. The position in `data` follows the batches that fit() has trained on, never those
    that were fetched ahead; with `steps_per_execution` it moves after each execution. The epochs of
    fit() become those of the data: it begins with `data.epoch`, in the middle of it if need be.
    With `steps_per_epoch`, or `epoch_batches` of dataset(), they are so many batches, over the ends
    of the data's epochs (with `steps_per_epoch` if `.repeat()` is behind the data set), and it
    begins with the one that these would have come to.

    With a `folder`, which all ranks share, rank 0 saves weights, optimizer and position there,
    together: after each epoch and after every `every` batches. fit() goes on with the newest, on
    any number of ranks. With `fast` it saves there, and the version is copied to `folder` while the
    training goes on, as hio.BurstBuffer does. Other callbacks that look at the position, such as
    CommitStateCallback, come after this one.

    Args:
        data: what the training reads; not that of validation.
        folder: where checkpoints are kept; without, nothing is saved or loaded.
        every: batches; None: only after each epoch.
        fast: a folder on rank 0's node, for this job alone.
        keep: how many versions `folder` keeps.
        signals: at the next batch after SIGTERM or SIGINT, if it is one of these, fit() saves and
            ends; after any other of these it saves. Several ranks agree on it in every tenth batch.

    Raises:
        InputError: on all ranks, if one cannot load; for a dataset whose batches cannot be counted.
    """

    def __init__(self, data: Data, folder: Union[str, os.PathLike, None] = None,
                 every: Optional[int] = None, fast: Union[str, os.PathLike, None] = None,
                 keep: int = 1, signals: Sequence[int] = ()):
        super().__init__()
        if every is not None and (not isinstance(every, int) or every < 1 or folder is None):
            raise InputError(f"every={tell(every)} with folder={tell(folder)}; remedy: a whole "
                             "number of at least 1, and a folder")
        self._data, self._every = data, every
        if folder is None and (fast is not None or signals):
            raise InputError(f"fast={fast!r} and signals={list(signals)!r} without a folder; "
                             "remedy: folder=, where versions are kept")
        self._checkpoints = (None if folder is None else
                             TrainingCheckpoints(data, folder, fast, keep, signals))
        self._counter = BatchCounter(data)
        self._batches_done = self._batches_saved = self._batches_before = 0
        self._source: Optional[StepSource] = None
        self._steps_per_epoch: Optional[int] = None
        self._rest = 0  # batches that are left of the first of fit()'s epochs; 0: it is whole

    def on_train_begin(self, logs: Optional[dict] = None) -> None:
        fit = find_fit(self.model)
        self._source = fit and require_countable(fit, self._data)
        self._steps_per_epoch = fit and fit.steps_per_epoch
        if self._checkpoints is not None:
            self._checkpoints.open()
            self._checkpoints.load(self._load_weights)
        require_equal(self._data.ranks.doing("begins fit() with hio.keras.Resume"),
                      {"epoch": self._data.epoch, "position": self._data.position}, SAME_PLACE)
        self._counter.follow_each_other = self._steps_per_epoch is not None
        if fit is not None and self._counter.follow_each_other:
            self._counter.is_read_ahead = fit.is_running
        self._counter.next_pass()
        epoch, self._rest = self._data.epoch, 0
        steps = self._steps_per_epoch or (self._source and self._source.epoch_batches)
        if self._source is not None and steps:
            epoch, done = divmod(self._source.batches_until_here(), steps)
            self._rest = steps - done if done else 0
        # As keras.callbacks.BackupAndRestore does; fit() looks at it after this.
        self.model._initial_epoch = epoch
        self._batches_before = self._batches_done = self._batches_saved = 0

    def on_epoch_begin(self, epoch: int, logs: Optional[dict] = None) -> None:
        if self._steps_per_epoch is None:
            self._counter.next_pass()
            self._batches_done = self._batches_saved = 0
        self._batches_before = self._batches_done

    def on_train_batch_end(self, batch: int, logs: Optional[dict] = None) -> None:
        self._batches_done = self._batches_before + batch + 1
        self._counter.advance(self._batches_done)
        if self._every is not None and self._batches_done - self._batches_saved >= self._every:
            self._batches_saved = self._batches_done
            self._save()
        asked = self._checkpoints and self._checkpoints.asked()
        if asked:
            self._save()
        if asked == STOP:
            self.model.stop_training = True
        # An epoch that was begun earlier is shorter than fit() expects. Where it runs into the end
        # of the data, it counts one more step of the optimizer.
        is_over = (self._counter.is_rest_over(self._batches_done)
                   if self._steps_per_epoch is None else self._batches_done == self._rest)
        if is_over:
            self.model.stop_training = self.model.stop_training or _EPOCH_IS_OVER

    def on_epoch_end(self, epoch: int, logs: Optional[dict] = None) -> None:
        if self.model.stop_training is _EPOCH_IS_OVER:  # and nobody has ended the training since
            self.model.stop_training = False
        if not self.model.stop_training and self._steps_per_epoch is None:
            self._counter.end(self._batches_done)
        self._save()

    def on_train_end(self, logs: Optional[dict] = None) -> None:
        self._counter.stop()
        self.model._initial_epoch = None
        if self._checkpoints is not None:
            self._checkpoints.close()

    def _save(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save(lambda folder: self.model.save_weights(folder / WEIGHTS))

    def _load_weights(self, folder: Path) -> None:
        """Of the model and its optimizer."""
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)  # else nothing of it is loaded
        self.model.load_weights(folder / WEIGHTS)
