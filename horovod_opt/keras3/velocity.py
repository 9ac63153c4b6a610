"""Momentum correction for optimizers whose momentum is a number and not a variable."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Their velocities contain the learning rate of the step in which a gradient was added.
CORRECTED = {"SGD", "RMSprop"}


def scale(optimizer: Any, old_rate: float, new_rate: float) -> bool:
    """Scales what the optimizer has gathered at one learning rate to another one.

    Goyal et al., arXiv:1706.02677, section 3: v <- momentum * new/old * v + new * gradient. Whether
    there was nothing left to do; False leaves it to the caller to change a momentum that is a
    variable.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if isinstance(getattr(optimizer, "momentum", None), tf.Variable):
        return False
    kinds = {cls.__name__ for cls in type(optimizer).__mro__}
    if kinds & CORRECTED and old_rate not in (0.0, new_rate):
        for name in "momentums", "_momentums":
            for velocity in getattr(optimizer, name, ()):
                if velocity is not None:
                    velocity.assign(velocity * (new_rate / old_rate))
    return True
