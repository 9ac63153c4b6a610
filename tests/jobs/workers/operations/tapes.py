"""hvd.DistributedGradientTape beside tf.GradientTape, structure for structure, and a session of
TensorFlow 1 with Horovod's hook."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow as tf

Pair = collections.namedtuple("Pair", ["weight", "bias"])
KEYWORDS = {
    "plain": {},
    "zero": {"unconnected_gradients": tf.UnconnectedGradients.ZERO},
    "none": {"unconnected_gradients": "none"},
    "scaled": {"output_gradients": tf.constant(3.0, tf.float64)},
}


def variables() -> tuple[tf.Variable, tf.Variable, tf.Variable]:
    """Of the last the loss does not depend."""
    return (tf.Variable(np.arange(6.0).reshape(3, 2) / 6), tf.Variable(np.zeros(2)),
            tf.Variable(np.ones(2)))


def structures(w: tf.Variable, b: tf.Variable, u: tf.Variable) -> dict[str, Any]:
    return {"one": w, "list": [w, b], "tuple": (w, b), "dict": {"w": w, "b": b},
            "nested": [[w], [b, [u]]], "of all kinds": {"a": (w,), "b": [b, {"c": u}]},
            "named": Pair(w, b), "twice": [w, b, w], "none": [], "unconnected": u}


def gradient(hvd: Any, rank: int, own: tuple[tf.Variable, ...], sources: Any,
             keywords: dict[str, Any]) -> Any:
    """`hvd`: None for TensorFlow's own tape."""
    w, b, _ = own
    data = tf.constant(np.sin(np.arange(12.0).reshape(4, 3) * (1 + rank)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((data @ w + b) ** 2)
    tape = tape if hvd is None else hvd.DistributedGradientTape(tape)
    return tape.gradient(loss, sources, **keywords)


def mean(*gradients: Any) -> Any:
    return None if gradients[0] is None else sum(gradients) / len(gradients)


def difference(got: Any, right: Any) -> str:
    try:
        tf.nest.assert_same_structure(got, right)
    except (TypeError, ValueError) as error:
        return str(error)
    for mine, its in zip(tf.nest.flatten(got), tf.nest.flatten(right)):
        if (mine is None) != (its is None):
            return f"{mine} instead of {its}"
        if its is not None and not np.allclose(mine, its, rtol=1e-12, atol=0):
            return f"{mine.numpy().tolist()} instead of {its.numpy().tolist()}"
    return ""


def wrong_gradients(rank: int, size: int, hvd: Any) -> list[str]:
    """Eagerly and in a function."""
    own = variables()
    wrong = []
    for kind, sources in structures(*own).items():
        # Keywords, with one structure that has everything.
        for how, keywords in KEYWORDS.items() if kind == "of all kinds" else [("plain", {})]:
            right = tf.nest.map_structure(
                mean, *(gradient(None, other, own, sources, keywords) for other in range(size)))

            def run(sources: Any = sources, keywords: dict[str, Any] = keywords) -> Any:
                return gradient(hvd, rank, own, sources, keywords)

            for where, act in ("eager", run), ("function", tf.function(run, autograph=False)):
                problem = difference(act(), right)
                if problem:
                    wrong.append(f"{kind}, {how}, {where}: {problem}")
    return wrong


def weights_of_a_session(rank: int, hvd: Any) -> list[float]:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        weights = v1.get_variable("weights", initializer=np.full(2, rank + 1.0))
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            return session.run(weights).tolist()


def objects_of_a_session(rank: int, hvd: Any) -> list[object]:
    """By a function that is made once, and by calls."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        send = hvd.broadcast_object_fn(session=session)
        return [send({"turn": turn} if rank == 0 else None) for turn in range(2)] + [
            hvd.broadcast_object("text" if rank == 0 else None, session=session),
            hvd.allgather_object([None, "text"][rank], session=session)]
