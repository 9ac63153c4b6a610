"""Dense layers in TensorFlow whose gradients are reduced in a few groups: `num_groups`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inputs
import steps
import tf_layers
from rank import Rank

GROUPS = 4


def build(rank: Rank) -> Callable[[], Any]:
    tf_layers.one_thread()
    model = tf_layers.Dense(inputs.DENSE_WIDTHS)
    return tf_layers.training_step(
        rank, model, model.trainable_variables, *inputs.rows(rank.rank), num_groups=GROUPS)


if __name__ == "__main__":
    steps.run("groups", "tensorflow", build)
