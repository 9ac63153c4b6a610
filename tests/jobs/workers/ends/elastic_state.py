"""The ranks make a state of TensorFlow's variables, each when it likes, and sync() it. Reports the
variable after each."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, report

hvd.init()
variable = tf.Variable([RANK + 1.0])


def make() -> hvd.elastic.TensorFlowState:
    return hvd.elastic.TensorFlowState([variable], batch=RANK)


def meet() -> None:
    hvd.allreduce(tf.zeros([1]), name="meeting")


# As a worker that comes later: the other one is past it by then.
if RANK == 0:
    state = make()
    meet()
else:
    meet()
    state = make()
made = variable.numpy().tolist()
state.sync()
synced = variable.numpy().tolist()
variable.assign([9.0])
state.restore()
report(made=made, synced=synced, restored=variable.numpy().tolist(), batch=state.batch)
