"""Trains a small network with a custom loop and reports the hashes of its weights.

Then, twice, a rank has more steps than the other, which joins before it: the last, then the first.
"""

import hashlib

import horovod.tensorflow as hvd
import tensorflow as tf
from common import report

STEPS = 6


def weights() -> str:
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in variables)).hexdigest()


hvd.init()
tf.random.set_seed(hvd.rank())  # each rank draws its own weights and data
shapes = (12, 16), (16,), (16, 3), (3,)
variables = [tf.Variable(tf.random.normal(shape)) for shape in shapes]
hvd.broadcast_variables(variables, root_rank=0)


@tf.function
def step(inputs: tf.Tensor, labels: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        hidden = tf.tanh(inputs @ variables[0] + variables[1])
        scores = hidden @ variables[2] + variables[3]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        loss = tf.reduce_mean(losses)
    tape = hvd.DistributedGradientTape(tape)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.1 * gradient)


initial = weights()
for _ in range(STEPS):
    step(tf.random.normal((20, 12)), tf.random.uniform((20,), maxval=3, dtype=tf.int32))
final = weights()

joins = []
for longest in hvd.size() - 1, 0:
    extra = 2 if hvd.rank() == longest else 0
    sums = [float(hvd.allreduce(tf.constant(7.0), op=hvd.Sum, name="extra")) for _ in range(extra)]
    joins.append({"sums": sums, "last": int(hvd.join())})
report(initial=initial, final=final, joins=joins)
