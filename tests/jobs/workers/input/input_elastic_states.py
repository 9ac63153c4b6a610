"""What hio.elastic.attach does with each state of hvd.elastic, in a job of one rank."""

from __future__ import annotations

import sys

import horovod.tensorflow as hvd
import horovod.tensorflow.keras
import horovod.torch
import keras
import tensorflow as tf
import torch
from common import report
from horovod.common.elastic import ObjectState

import horovod_opt.io as hio

PATTERN = sys.argv[2]


def model() -> keras.Model:
    model_of_keras = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model_of_keras.compile("sgd", "mse")
    return model_of_keras


def states():
    yield "ObjectState", lambda: ObjectState(hvd.broadcast_object, hvd.rank, step=0)
    yield "TorchState", lambda: horovod.torch.elastic.TorchState(torch.nn.Linear(2, 2), step=0)
    yield "TensorFlowState", lambda: hvd.elastic.TensorFlowState([tf.Variable(1.0)], step=0)
    yield "TensorFlowKerasState", lambda: hvd.elastic.TensorFlowKerasState(model(), step=0)
    yield "KerasState", lambda: horovod.tensorflow.keras.elastic.KerasState(model(), step=0)


def positions(make) -> list[int]:
    """After: a commit at 20 and 10 more, a return to the commit, a reset, and a sync."""
    with hio.open(PATTERN, seed=1, elastic=True) as data:
        state = make()
        hio.elastic.attach(state, data)
        data.advance(0, 20)
        state.step = 2
        state.commit()
        data.advance(0, 30)
        state.step = 3
        places = [data.position]
        state.restore()
        places += [data.position, state.step]
        state.on_reset()
        places.append(data.position)
        data.advance(0, 40)
        state.sync()
        places.append(data.position)
        return places


def refusals() -> dict[str, str]:
    state = ObjectState(hvd.broadcast_object, hvd.rank, step=0)
    errors = {}
    with hio.open(PATTERN) as together, hio.open(PATTERN, elastic=True) as data:
        for name, arguments in (("opened together", (state, together)), ("none", ({}, data))):
            try:
                hio.elastic.attach(*arguments)
            except hio.InputError as error:
                errors[name] = str(error)
    return errors


hvd.init()
horovod.torch.init()
report(positions={name: positions(make) for name, make in states()}, refusals=refusals())
hvd.shutdown()
