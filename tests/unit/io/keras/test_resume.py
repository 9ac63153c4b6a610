"""fit() that goes on where it was stopped."""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from data_sets import tfrecord
from events import MINUTE
from thread_ranks import in_job, succeeded

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import horovod_opt.io as hio
from horovod_opt.io.batch_counter import BatchCounter
from horovod_opt.io.step_source import StepSource
from horovod_opt.io.tensorflow.passes import Passes

pytestmark = pytest.mark.usefixtures("source", "unsynced")
COUNT = 100


@pytest.fixture
def tfrecords(tmp_path) -> str:
    tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)])
    tfrecord(tmp_path / "valid.tfrecord", [i.to_bytes(4, "little") for i in range(30)])
    return str(tmp_path / "a.tfrecord")


def parse(records):
    numbers = tf.io.decode_raw(records, tf.int32)[:, 0]
    return tf.cast(numbers[:, None], tf.float32), numbers % 2


class Counting(keras.Model):
    """How often each sample was trained on; validation does not count."""

    def __init__(self, **options):
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self(tf.zeros((1, 1)))
        self.counts = tf.Variable(tf.zeros(COUNT, tf.int32))
        self.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                     **options)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        inputs, _ = data
        numbers = tf.cast(inputs[:, 0], tf.int32)
        self.counts.scatter_add(tf.IndexedSlices(tf.ones_like(numbers), numbers))
        return super().train_step(data)


class Stopped(Exception):
    pass


def versions(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name[0] != "."]


def made_older(folder: Path) -> Path:
    """Its only version, as earlier releases have saved it."""
    version, = versions(folder)
    (folder / version / "0" / "MANIFEST").unlink()
    epoch, position = divmod(int(version), COUNT)
    (folder / version / "0").rename(folder / f"{epoch}-{position}")
    return folder / f"{epoch}-{position}"


class Stop(keras.callbacks.Callback):
    """As a kill would, after a batch of an epoch."""

    def __init__(self, epoch: int, batch: int):
        super().__init__()
        self._when, self._epoch = (epoch, batch), 0

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self._epoch == self._when[0] and batch >= self._when[1]:
            raise Stopped


def fitted(pattern: str, epochs: int, *callbacks, resume=(), steps_per_execution: int = 1,
           validation=None, **options) -> tuple[list[int], int, hio.Data]:
    """How often each sample was trained on, steps of the optimizer, and the data."""
    model = Counting(steps_per_execution=steps_per_execution)
    with hio.open(pattern, seed=5, chunk_samples=8) as data:
        ds = hio.tensorflow.dataset(data, 8, **options).map(parse).prefetch(4)
        try:
            model.fit(ds, epochs=epochs, verbose=0, shuffle=False, validation_data=validation,
                      callbacks=[hio.keras.Resume(data, *resume), *callbacks])
        except Stopped:
            pass
        return model.counts.numpy().tolist(), int(model.optimizer.iterations), data


@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_the_position_is_what_was_trained_on(tfrecords, steps_per_execution):
    counts, steps, data = fitted(tfrecords, 3, Stop(1, 4), steps_per_execution=steps_per_execution)
    taken = 5 if steps_per_execution == 1 else 8
    assert steps == 13 + taken
    assert (data.epoch, data.position) == (1, 8 * taken)
    assert sum(counts) == COUNT + 8 * taken


@pytest.mark.parametrize("every, taken", [(1, 5), (2, 4), (None, 0)])
def test_goes_on_with_the_newest_checkpoint(tfrecords, tmp_path, every, taken):
    resume = (tmp_path / "checkpoints", every)
    before, steps, _ = fitted(tfrecords, 3, Stop(1, 4), resume=resume)
    assert steps == 13 + 5
    assert versions(tmp_path / "checkpoints") == [str(COUNT + 8 * taken)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Your input ran out of data")
        after, steps, data = fitted(tfrecords, 3, resume=resume)
    assert steps == 3 * 13  # the optimizer's, loaded with the weights
    assert data.epoch == 3
    # From the checkpoint on: what is left of epoch 1, and all of epoch 2.
    assert sum(after) == 2 * COUNT - 8 * taken
    assert set(after) <= {1, 2}
    if every == 1:  # nothing was trained on twice
        assert [a + b for a, b in zip(before, after)] == [3] * COUNT


def test_epochs_of_some_batches_go_on_over_the_ends_of_the_datas(tfrecords, tmp_path):
    resume = (tmp_path / "checkpoints", 1)
    before, steps, _ = fitted(tfrecords, 6, Stop(3, 2), resume=resume, epoch_batches=5)
    assert steps == 18 and sum(before) == COUNT + 5 * 8
    after, steps, data = fitted(tfrecords, 6, resume=resume, epoch_batches=5)
    assert steps == 30 and data.epoch == 2
    assert sum(before) + sum(after) == 2 * COUNT + 4 * 8
    assert {a + b for a, b in zip(before, after)} == {2, 3}


def test_a_finished_training_has_nothing_to_do(tfrecords, tmp_path):
    fitted(tfrecords, 2, resume=(tmp_path / "checkpoints",))
    counts, steps, _ = fitted(tfrecords, 2, resume=(tmp_path / "checkpoints",))
    assert sum(counts) == 0 and steps == 2 * 13


def test_validation_does_not_count(tfrecords, tmp_path):
    with hio.open(tmp_path / "valid.tfrecord", shuffle=False, alone=True) as valid:
        checks = hio.tensorflow.dataset(valid, 8).map(parse)
        counts, _, data = fitted(tfrecords, 2, validation=checks)
        assert counts == [2] * COUNT
        assert (data.epoch, data.position) == (2, 0)
        assert valid.stats()["samples"] == 60


def unordered(ds):
    return ds.map(lambda *batch: batch, num_parallel_calls=2, deterministic=False)


REFUSED = {
    "Cache": lambda ds: ds.cache(), "Unbatch": lambda ds: ds.unbatch().batch(50),
    "Batch": lambda ds: ds.batch(1), "Shuffle": lambda ds: ds.shuffle(3).prefetch(2),
    "Take": lambda ds: ds.take(5), "Skip": lambda ds: ds.skip(5),
    "Shard": lambda ds: ds.shard(2, 0), "Filter": lambda ds: ds.filter(lambda *batch: True),
    "FlatMap": lambda ds: ds.flat_map(lambda *batch: tf.data.Dataset.from_tensors(batch)),
    "ParallelMap with deterministic=False": unordered, "repeat": lambda ds: ds.repeat(),
    "another data set": lambda ds: tf.data.Dataset.from_tensors(next(iter(ds))),
    # Keras keeps what a generator refers to.
    "generator": lambda _: (batch for batch in [(tf.zeros((8, 1)), tf.zeros(8))] * 3)}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_counted_is_refused_at_once(tfrecords, kind):
    """Before anything is trained on."""
    with hio.open(tfrecords, seed=5) as data:
        model = Counting()
        ds = REFUSED[kind](hio.tensorflow.dataset(data, 8).map(parse))
        with pytest.raises(hio.InputError, match=f"{kind}.*; remedy: "):
            model.fit(ds, epochs=2, verbose=0, shuffle=False, callbacks=[hio.keras.Resume(data)])
        assert not int(model.optimizer.iterations) and (data.epoch, data.position) == (0, 0)


def fitted_in_steps(pattern: str, steps: int, epochs: int, *callbacks, resume=(), repeated=True,
                    steps_per_execution: int = 1) -> tuple[list[int], list, hio.Data]:
    """How often each sample was trained on, the batches of fit()'s epochs, and the data."""
    model, lengths = Counting(steps_per_execution=steps_per_execution), []
    ends = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: lengths.append((epoch, int(model.optimizer.iterations))))
    with hio.open(pattern, seed=5, chunk_samples=8) as data:
        ds = hio.tensorflow.dataset(data, 8).map(parse).prefetch(4)
        try:
            model.fit(ds.repeat() if repeated else ds, epochs=epochs, steps_per_epoch=steps,
                      verbose=0, shuffle=False,
                      callbacks=[hio.keras.Resume(data, *resume), ends, *callbacks])
        except Stopped:
            pass
        return model.counts.numpy().tolist(), lengths, data


@pytest.mark.parametrize("steps, epochs", [(5, 4), (13, 2), (20, 2), (40, 1)])
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_steps_per_epoch_are_counted_over_epochs(tfrecords, steps, epochs, steps_per_execution):
    counts, lengths, data = fitted_in_steps(tfrecords, steps, epochs,
                                            steps_per_execution=steps_per_execution)
    batches = lengths[-1][1]
    assert batches >= steps * epochs
    assert (data.epoch, data.position) == (batches // 13, batches % 13 * 8)
    assert set(counts) <= {data.epoch, data.epoch + 1}
    assert sum(counts) == data.epoch * COUNT + data.position


def test_what_ran_ahead_of_a_training_moves_nothing_when_it_is_over(tfrecords, monkeypatch):
    """Of 25 steps an epoch fit() takes 24; the next epoch is asked for when it has ended."""
    from horovod_opt.io.tensorflow import passes

    is_over, asked = threading.Event(), threading.Event()
    begin = passes.Passes.begin

    def watched(self):
        begun = begin(self)
        if is_over.is_set():
            asked.set()
        return begun

    def gate(record):
        if gate.seen >= 24:
            assert is_over.wait(MINUTE)
        gate.seen += 1
        return record

    class End(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            is_over.set()
            assert asked.wait(MINUTE)

    monkeypatch.setattr(passes.Passes, "begin", watched)
    gate.seen = 0
    with hio.open(tfrecords, seed=1, chunk_samples=4) as data:
        ds = hio.tensorflow.dataset(data, 4)
        gated = ds.map(lambda batch: tf.ensure_shape(
            tf.numpy_function(gate, [batch], tf.string), [None]))
        model = Counting()
        model.fit(gated.map(parse).repeat().prefetch(4), epochs=1, steps_per_epoch=24, verbose=0,
                  shuffle=False, callbacks=[hio.keras.Resume(data), End()])
        assert (data.epoch, data.position) == (0, 96)
        assert sum(len(batch) for batch in ds) == COUNT  # a loop of one's own still has its epoch


def test_ranks_run_ahead_as_far_as_each_comes(tfrecords):
    """One asks for a second epoch, the other never does: they still meet for what follows."""
    def run(open_data, rank):
        with open_data(tfrecords, seed=1, chunk_samples=4) as data:
            fits = Passes(data, StepSource(data, 4, None, "spread", None))
            for expected in (0, 1):
                counter = BatchCounter(data)
                counter.follow_each_other = True
                counter.next_pass()
                assert fits.begin().start[0] == expected
                counter.advance(3)
                if rank == 0:
                    assert fits.begin().start[0] == expected + 1
                counter.stop()
                data.load_state_dict({**data.state_dict(), "epoch": 1, "position": 0})

    succeeded(in_job(2, run))


def test_steps_per_epoch_without_repeat_ends_with_the_data(tfrecords):
    counts, _, data = fitted_in_steps(tfrecords, 13, 2, repeated=False)
    assert counts == [2] * COUNT and (data.epoch, data.position) == (2, 0)
    _, _, data = fitted_in_steps(tfrecords, 5, 2, repeated=False)
    assert (data.epoch, data.position) == (0, 80)


@pytest.mark.parametrize("stop, place", [((1, 1), (0, 56)), ((3, 0), (1, 24))])
def test_steps_per_epoch_go_on_where_they_were(tfrecords, tmp_path, stop, place):
    """Also in the middle of one of fit()'s epochs, which has only what is left of it."""
    resume = (tmp_path / "checkpoints", 1)
    before, _, data = fitted_in_steps(tfrecords, 5, 6, Stop(*stop), resume=resume)
    assert (data.epoch, data.position) == place
    after, lengths, data = fitted_in_steps(tfrecords, 5, 6, resume=resume)
    assert lengths == [(epoch, 5 * (epoch + 1)) for epoch in range(stop[0], 6)]
    assert (data.epoch, data.position) == (2, 32)
    assert sum(before) + sum(after) == 2 * COUNT + 32
    assert {one + other for one, other in zip(before, after)} == {2, 3}


def test_a_pass_that_only_builds_the_model_loses_no_place(tfrecords):
    with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
        data.load_state_dict({**data.state_dict(), "position": 48})
        model = keras.Sequential([keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(hio.tensorflow.dataset(data, 8).map(parse), epochs=1, verbose=0, shuffle=False,
                  callbacks=[hio.keras.Resume(data)])
        assert int(model.optimizer.iterations) == 7 and (data.epoch, data.position) == (1, 0)


def test_a_checkpoint_of_other_data_is_refused(tfrecords, tmp_path):
    fitted(tfrecords, 1, resume=(tmp_path / "checkpoints",))
    state = made_older(tmp_path / "checkpoints") / "data.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "seed": 6}))
    with pytest.raises(hio.InputError, match="seed: 6 in the state, 5 here"):
        fitted(tfrecords, 1, resume=(tmp_path / "checkpoints",))


def test_what_was_not_saved_to_its_end_is_not_loaded(tfrecords, tmp_path):
    fitted(tfrecords, 1, resume=(tmp_path / "checkpoints",))
    (tmp_path / "checkpoints" / ".part-999-0-aa").mkdir()
    _, steps, _ = fitted(tfrecords, 2, resume=(tmp_path / "checkpoints",))
    assert steps == 2 * 13
    assert versions(tmp_path / "checkpoints") == [str(2 * COUNT)]


def test_a_folder_of_an_earlier_release_is_gone_on_with(tfrecords, tmp_path):
    fitted(tfrecords, 1, resume=(tmp_path / "checkpoints",))
    made_older(tmp_path / "checkpoints")
    counts, steps, _ = fitted(tfrecords, 2, resume=(tmp_path / "checkpoints",))
    assert steps == 2 * 13 and counts == [1] * COUNT
    assert versions(tmp_path / "checkpoints") == [str(2 * COUNT)]


def test_with_a_fast_folder_the_newest_is_there_and_in_the_folder(tfrecords, tmp_path):
    resume = (tmp_path / "checkpoints", 3, tmp_path / "fast")
    before, _, _ = fitted(tfrecords, 2, Stop(1, 2), resume=resume)
    after, steps, _ = fitted(tfrecords, 2, resume=resume)
    assert steps == 2 * 13 and [a + b for a, b in zip(before, after)] == [2] * COUNT
    assert versions(tmp_path / "checkpoints") == versions(tmp_path / "fast") == [str(2 * COUNT)]


def test_a_signal_saves_and_ends_the_training(tfrecords, tmp_path):
    class Kill(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    resume = (tmp_path / "checkpoints", None, None, 1, (signal.SIGTERM,))
    _, _, data = fitted(tfrecords, 2, Kill(), resume=resume)
    assert (data.epoch, data.position) == (0, 4 * 8)
    assert versions(tmp_path / "checkpoints") == [str(4 * 8)]


def test_fast_and_signals_need_a_folder(tfrecords, tmp_path):
    with hio.open(tfrecords, seed=5) as data:
        with pytest.raises(hio.InputError, match="without a folder; remedy: folder="):
            hio.keras.Resume(data, fast=tmp_path / "fast")


def test_a_resumed_training_is_the_uninterrupted_one(tfrecords, tmp_path):
    """Also in the middle of an accumulation of gradients, whose sums are the optimizer's."""
    def trained(*callbacks, resume=()) -> list:
        keras.utils.set_random_seed(3)
        model = Counting()
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=4),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
            try:
                model.fit(hio.tensorflow.dataset(data, 8).map(parse).prefetch(4), epochs=2,
                          verbose=0, shuffle=False,
                          callbacks=[hio.keras.Resume(data, *resume), *callbacks])
            except Stopped:
                pass
        return [weights.tolist() for weights in model.dense.get_weights()]

    whole, resume = trained(), (tmp_path / "checkpoints", 1)
    stopped = trained(Stop(1, 4), resume=resume)  # 18 batches: two of the fifth sum
    assert stopped != whole
    assert trained(resume=resume) == whole


def test_savers_of_keras_and_tensorflow_save_into_a_buffer(tmp_path):
    model = Counting()
    with hio.BurstBuffer(tmp_path / "fast", tmp_path / "slow") as buffer:
        with buffer.save(1) as folder:
            tf.train.Checkpoint(model=model).write(str(folder / "model"))
        before = model.get_weights()
        model.set_weights([weights + 1 for weights in before])
        tf.train.Checkpoint(model=model).read(str(buffer.restore() / "model"))
        assert all(map(np.array_equal, before, model.get_weights()))
        small = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
        buffer.save_with(2, lambda folder: small.save(folder / "model.keras"))
        again = keras.models.load_model(buffer.restore() / "model.keras")
        assert all(map(np.array_equal, small.get_weights(), again.get_weights()))


class StopEarly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 4:
            self.model.stop_training = True


def test_a_training_that_stops_early_goes_on_where_it_stopped(tfrecords, tmp_path):
    resume = (tmp_path / "checkpoints",)
    before, steps, data = fitted(tfrecords, 2, StopEarly(), resume=resume)
    assert steps == 5 and (data.epoch, data.position) == (0, 40)
    after, steps, data = fitted(tfrecords, 2, resume=resume)
    assert steps == 2 * 13 and (data.epoch, data.position) == (2, 0)
    assert [a + b for a, b in zip(before, after)] == [2] * COUNT


def test_early_stopping_of_keras_ends_with_an_epoch(tfrecords):
    """A loss that is never good enough."""
    stopping = keras.callbacks.EarlyStopping("loss", mode="max", baseline=1e9, patience=0)
    counts, steps, data = fitted(tfrecords, 3, stopping)
    assert steps == 2 * 13 and counts == [2] * COUNT  # Keras never stops after the first epoch
    assert (data.epoch, data.position) == (2, 0)
