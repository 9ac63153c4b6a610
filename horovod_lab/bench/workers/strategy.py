"""tf.distribute.MultiWorkerMirroredStrategy in Horovod's place, between processes of one host."""

from __future__ import annotations

import json
import os
import socket
from types import SimpleNamespace

import tensorflow as tf
from rank import Rank


def join(rank: Rank) -> None:
    """Makes `rank.hvd` what reduces gradients as Horovod would.

    The variables stay the workers' own: all of them begin with the same values and get the same
    gradients, so that only the strategy's reduction is measured."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{port}" for port in rank.exchange(probe.getsockname()[1])]
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": workers}, "task": {"type": "worker", "index": rank.rank}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    class Tape:
        """As DistributedGradientTape."""

        def __init__(self, tape: tf.GradientTape):
            self._tape = tape

        def gradient(self, loss: tf.Tensor, variables: list[tf.Variable]) -> list[tf.Tensor]:
            gradients = self._tape.gradient(loss, variables)

            def reduce() -> list[tf.Tensor]:
                # The strategy reduces what was made on a device of its own.
                mine = [tf.identity(gradient) for gradient in gradients]
                return tf.distribute.get_replica_context().all_reduce(
                    tf.distribute.ReduceOp.MEAN, mine)

            return strategy.run(reduce)

    rank.hvd = SimpleNamespace(DistributedGradientTape=Tape)
