"""Trains elastically with planned steps; a third rank joins the first two on their node."""

import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf
from common import FOLDER, graph_plans
from horovod.common.elastic import ObjectState

GROWS, MORE = 12, 12  # steps before there is room for a third rank, and with it

hosts = FOLDER / "hosts"
hvd.init()
weights = tf.Variable(tf.zeros([4]))
state = ObjectState(hvd.broadcast_object, hvd.rank, step=0, with_three=0, weights=[0.0] * 4)


def note(text: str) -> None:
    with open(FOLDER / f"notes.{os.getpid()}", "a") as file:
        file.write(text + "\n")


@tf.function(autograph=False)
def trained(mine: tf.Tensor) -> None:
    total = hvd.allreduce(mine + weights, op=hvd.Sum)
    weights.assign(tf.math.floormod(hvd.allreduce(total, op=hvd.Sum), 7.0))


def planned() -> str:
    return " ".join(f"{plan.state} {plan.iterations > 0}" for plan in graph_plans())


@hvd.elastic.run
def train(state: ObjectState) -> None:
    weights.assign(state.weights)
    note(f"starts with {hvd.size()} ranks")
    while state.with_three < MORE:
        trained(tf.range(4.0) + hvd.rank() + state.step)
        state.step += 1
        state.with_three += hvd.size() == 3
        if state.step == GROWS:
            note(planned())
            if hvd.rank() == 0:
                hosts.with_suffix(".part").write_text("localhost:3\n")
                hosts.with_suffix(".part").rename(hosts)  # it is read at any time
        if state.step > GROWS:
            time.sleep(0.1)  # the launcher looks for new hosts every second
        state.weights = weights.numpy().tolist()
        state.commit()
    note(planned())


train(state)
note(f"ends with {state.weights}")
hvd.shutdown()
