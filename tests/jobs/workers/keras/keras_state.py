"""What outlives a step: saved models, elastic state, and statistics of batch normalization."""

from __future__ import annotations

import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from common import FOLDER, RANK
from keras_common import LEGACY, SIZE, draw, error_of, keras, lists, network, on_all_ranks, state


class Custom(keras.optimizers.SGD):
    """An optimizer that Keras does not know."""


def batch(rank: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    return draw(rank, step, shape=(4, 2)), draw(rank, step, 1, shape=(4, 1))


def compile_model(optimizer: object, *layers: object) -> object:
    model = network(1.0, *layers)
    # Without a graph, which costs more than the few steps here.
    model.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=True)
    return model


def whole(model: object) -> list:
    return [lists(model.get_weights()), state(model.optimizer)]


def saved_and_loaded() -> dict:
    """Rank 0 saves after two steps; all load and go on, as does the model that was saved."""
    optimizers = {
        "Adam": keras.optimizers.Adam(0.25),
        "custom": Custom(0.25, momentum=0.5),
        "scaled": keras.optimizers.Adam(0.25),
    }
    if LEGACY:
        del optimizers["scaled"]
    else:
        optimizers["scaled"] = keras.optimizers.LossScaleOptimizer(optimizers["scaled"])
    parts = {}
    for name, optimizer in optimizers.items():
        model = compile_model(hvd.DistributedOptimizer(optimizer))
        for step in range(2):
            model.train_on_batch(*batch(RANK, step))
        before = whole(model)
        for suffix in ("h5",) if LEGACY else ("keras", "h5"):
            path = FOLDER / f"{name}.{suffix}"
            if RANK == 0:
                model.save(path)
            on_all_ranks(None)
            how = {"custom_optimizers": [Custom]} if name == "custom" else {}
            loaded = hvd.load_model(path, **how)
            plain = keras.models.load_model(path, custom_objects={"Custom": Custom})
            parts[f"{name}.{suffix}"] = {
                "before": before, "loaded": whole(loaded),
                "rate": float(loaded.optimizer.learning_rate.numpy()),
                "plain": type(plain.optimizer) is type(optimizer),
                "reduces": [hasattr(m.optimizer, "register_local_var") for m in (loaded, plain)],
            }
            loaded.run_eagerly = True
            loaded.train_on_batch(*batch(RANK, 2))
            parts[f"{name}.{suffix}"]["after"] = whole(loaded)
            if not LEGACY and RANK == 0:
                loaded.save(path)  # as it is on rank 0, and it can be loaded once more
                again = keras.models.load_model(path, custom_objects={"Custom": Custom})
                parts[f"{name}.{suffix}"]["again"] = lists(again.get_weights())
        model.train_on_batch(*batch(RANK, 2))
        for suffix in ("h5",) if LEGACY else ("keras", "h5"):
            parts[f"{name}.{suffix}"]["expected"] = whole(model)
    return parts


def elastic_state() -> dict:
    model = compile_model(hvd.DistributedOptimizer(keras.optimizers.Adam(0.25)))
    model.set_weights([weight + RANK for weight in model.get_weights()])
    if LEGACY:
        model.optimizer.build(model.trainable_variables)
    own = hvd.elastic.KerasState(model, batch=20 + RANK, epoch=RANK, losses=[RANK])
    created = whole(model)
    model.train_on_batch(*batch(RANK, 0))
    own.restore()
    part = {"created": created, "restored": whole(model)}
    model.train_on_batch(*batch(RANK, 0))
    own.commit()
    committed = whole(model)
    own.sync()
    part["synced"] = [whole(model), own.batch, own.epoch]
    model.train_on_batch(*batch(RANK, 1))
    own.batch = 5
    own.restore()
    part["after failure"] = [whole(model), own.batch, own.epoch]
    for _ in range(2):  # what is handed out is not what is kept
        own.losses.append(1.5)
        own.restore()
    part["losses"] = own.losses
    return {**part, "committed": on_all_ranks(committed)}


class Record(keras.callbacks.Callback):
    def __init__(self, own: object) -> None:
        super().__init__()
        self.own, self.saved, self.states = own, 0, []
        save = own.save

        def count() -> None:
            self.saved += 1
            save()

        own.save = count

    def on_train_batch_end(self, batch, logs=None):
        self.states.append([self.own.epoch, self.own.batch, self.saved])

    def on_epoch_end(self, epoch, logs=None):
        self.states.append([self.own.epoch, self.own.batch, self.saved])


def elastic_callbacks() -> list:
    """Two epochs of three batches after a restart in epoch 4; commits every second batch."""
    model = compile_model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    own = hvd.elastic.KerasState(model, batch=0, epoch=4)
    record = Record(own)
    inputs, targets = (np.concatenate(parts)[:6] for parts in zip(batch(0, 0), batch(0, 1)))
    model.fit(inputs, targets, batch_size=2, epochs=2, verbose=0, callbacks=[
        hvd.elastic.UpdateEpochStateCallback(own), hvd.elastic.UpdateBatchStateCallback(own),
        hvd.elastic.CommitStateCallback(own, batches_per_commit=2), record])
    return record.states


def batch_normalization() -> dict:
    parts = [draw(rank, 7, shape=(4, 2)) * (rank + 1) + rank for rank in range(SIZE)]
    together = np.concatenate(parts)
    layer, alone = hvd_tf.SyncBatchNormalization(momentum=0.5), \
        keras.layers.BatchNormalization(momentum=0.5)
    with tf.GradientTape() as tape:
        own = tf.constant(parts[RANK])
        tape.watch(own)
        outputs = layer(own, training=True)
        loss = tf.reduce_sum(outputs ** 3)
    with tf.GradientTape() as reference:
        whole_batch = tf.constant(together)
        reference.watch(whole_batch)
        expected = alone(whole_batch, training=True)
        whole_loss = tf.reduce_sum(expected ** 3)
    rows = slice(RANK * 4, RANK * 4 + 4)
    part = {
        "outputs": lists([outputs, expected[rows]]),
        "gradients": lists([tape.gradient(loss, own),
                            reference.gradient(whole_loss, whole_batch)[rows]]),
        "moving": [lists(layer.get_weights()), lists(alone.get_weights())],
        "inference": lists([layer(together), alone(together)]),
        "fused": error_of(hvd_tf.SyncBatchNormalization, fused=True),
    }
    if not LEGACY:
        model = compile_model(keras.optimizers.SGD(), hvd_tf.SyncBatchNormalization(),
                         hvd_tf.SyncBatchNormalization())
        model.fit(*batch(RANK, 0), verbose=0)
        path = FOLDER / f"normalized-{RANK}.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        part["loaded"] = [lists(loaded.get_weights()), lists(model.get_weights())]
        part["kinds"] = [type(layer).__name__ for layer in loaded.layers]
        part["names"] = len({layer.name for layer in loaded.layers})
    return part


def run() -> dict:
    parts = saved_and_loaded, elastic_state, elastic_callbacks, batch_normalization
    return {part.__name__: part() for part in parts}
