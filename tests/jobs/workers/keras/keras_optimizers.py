"""Steps of distributed optimizers of Keras, one after the other, and what they should have done.

Every gradient is known on every rank, so each rank computes what the optimizer should do with the
reduced ones. Reports pairs of that, by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import horovod.keras as hvd_keras
import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from common import RANK
from keras_common import LEGACY, SIZE, draw, first_rank, keras, lists, variable

STEPS = 3
pairs: dict[str, list] = {}
values: dict[str, object] = {}


def gradients(step: int, rank: int) -> list[np.ndarray]:
    """Small multiples of 1/8: whatever is computed from them is exact, also in 16 bits."""
    return [np.round(8 * draw(step, rank, i, shape=shape)) / 8
            for i, shape in enumerate(((3, 2), (2,), (2,)))]


def mean_gradients(step: int) -> list[np.ndarray]:
    return [sum(parts) / SIZE for parts in zip(*(gradients(step, r) for r in range(SIZE)))]


def start() -> list:
    return [variable(np.ones((3, 2))), variable(np.ones(2)), variable(np.ones(2))]


def loss_of(step: int, variables: list) -> Callable:
    """The gradients of this are gradients(step, RANK)."""
    return lambda: sum(tf.reduce_sum(tf.convert_to_tensor(v) * g)
                       for v, g in zip(variables, gradients(step, RANK)))


def train(optimizer, steps: int = STEPS, variables: list | None = None) -> list:
    """The weights after some steps with this rank's gradients."""
    variables = variables or start()
    for step in range(steps):
        optimizer.apply_gradients(optimizer.compute_gradients(loss_of(step, variables), variables))
    return lists(variables)


def train_alone(optimizer, gradients_of: Callable = mean_gradients, steps: int = STEPS) -> list:
    variables = start()
    for step in range(steps):
        optimizer.apply_gradients(list(zip(map(tf.constant, gradients_of(step)), variables)))
    return lists(variables)


def optimizers() -> dict[str, Callable]:
    classes = keras.optimizers
    makers = {
        "SGD": lambda: classes.SGD(0.1, momentum=0.9, nesterov=True),
        "Adam": lambda: classes.Adam(0.1, amsgrad=True),
        "RMSprop": lambda: classes.RMSprop(0.1, momentum=0.5),
        "clipped": lambda: classes.SGD(0.1, global_clipnorm=0.5),
        "schedule": lambda: classes.SGD(classes.schedules.ExponentialDecay(0.1, 1, 0.5)),
    }
    if not LEGACY:
        names = ("AdamW", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion", "Adafactor",
                 "Lamb", "Muon", "ScheduleFreeAdamW")
        makers.update({name: lambda cls=getattr(classes, name): cls(0.1)
                       for name in names if hasattr(classes, name)})
        makers["averaged"] = lambda: classes.SGD(0.1, use_ema=True)
        makers["accumulated"] = lambda: classes.SGD(0.1, gradient_accumulation_steps=2)
    return makers


def each_optimizer() -> None:
    for name, make in optimizers().items():
        alone = train_alone(make())
        if LEGACY or name == "SGD":
            pairs[f"{name}, compute_gradients"] = [train(hvd.DistributedOptimizer(make())), alone]
        if not LEGACY:
            # One name, one graph: the gradients have the same shapes.
            distributed, variables = hvd.DistributedOptimizer(make(), name="one"), start()
            for step in range(STEPS):
                distributed.apply([tf.constant(g) for g in gradients(step, RANK)], variables)
            pairs[name] = [lists(variables), alone]


def sgd():
    return keras.optimizers.SGD(1.0)


def sums(step: int) -> list[np.ndarray]:
    return [SIZE * gradient for gradient in mean_gradients(step)]


def options() -> None:
    averaged = train_alone(sgd())
    grouped = start()
    for name, how in {
        "fp16": {"compression": hvd.Compression.fp16},
        "bf16": {"compression": hvd.Compression.bf16},
        "predivided": {"gradient_predivide_factor": 2.0},
        "one group": {"groups": 1},
        "two groups": {"num_groups": 2},
        "groups": {"groups": [[grouped[2], grouped[0]]]},
    }.items():
        variables = grouped if name == "groups" else start()
        pairs[name] = [train(hvd.DistributedOptimizer(sgd(), **how), variables=variables), averaged]
    pairs["sum"] = [train(hvd.DistributedOptimizer(sgd(), op=hvd.Sum)), train_alone(sgd(), sums)]
    alone = hvd.DistributedOptimizer(sgd(), process_set=first_rank)
    own = train_alone(sgd(), lambda step: gradients(step, RANK))
    pairs["process set"] = [train(alone), own]

    tiny = hvd.DistributedOptimizer(sgd(), compression=hvd.Compression.fp16)
    variables = [variable([0.0])]
    pairs_of = tiny.compute_gradients(lambda: 1e-9 * tf.convert_to_tensor(variables[0]), variables)
    values["tiny in 16 bits"] = float(pairs_of[0][0][0])


def local_variables() -> None:
    for scale in True, False:
        optimizer = hvd.DistributedOptimizer(sgd(), scale_local_gradients=scale)
        variables = start()
        optimizer.register_local_var(variables[0])

        def expected(step: int, scale: bool = scale) -> list[np.ndarray]:
            first = gradients(step, RANK)[0] / (SIZE if scale else 1)
            return [first, *mean_gradients(step)[1:]]

        name = "scaled" if scale else "unscaled"
        pairs[f"local, {name}"] = [train(optimizer, variables=variables),
                                   train_alone(sgd(), expected)]


def several_passes() -> None:
    """Five passes, reduced and applied after the second and the fourth."""
    for average in False, True:
        optimizer = hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2,
                                             average_aggregated_gradients=average)
        variables = start()
        optimizer.register_local_var(variables[1])

        def passes(step: int, average: bool = average) -> list[np.ndarray]:
            gathered = [a + b for a, b in
                        zip(mean_gradients(2 * step), mean_gradients(2 * step + 1))]
            own = gradients(2 * step, RANK)[1] + gradients(2 * step + 1, RANK)[1]
            gathered[1] = own / SIZE
            return [gradient / (2 if average else 1) for gradient in gathered]

        kind = "averaged" if average else "added"
        pairs[f"passes, {kind}"] = [train(optimizer, 5, variables),
                                    train_alone(sgd(), passes, 2)]
        values[f"passes, {kind}"] = [int(optimizer.iterations),
                                     int(optimizer._agg_helper.counter)]

    optimizer, variables = hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2), start()

    @tf.function
    def step(own):
        loss = lambda: sum(tf.reduce_sum(tf.convert_to_tensor(v) * g)  # noqa: E731
                           for v, g in zip(variables, own))
        optimizer.apply_gradients(optimizer.compute_gradients(loss, variables))

    for number in range(2):
        step([tf.constant(g) for g in gradients(number, RANK)])
    added = train_alone(sgd(), lambda _: [a + b for a, b in
                                          zip(mean_gradients(0), mean_gradients(1))], 1)
    pairs["passes, graph"] = [lists(variables), added]


def sparse() -> None:
    """Ranks look up different rows, one of them both; a group has a dense gradient, too."""
    rows = {rank: [rank, 2] for rank in range(SIZE)}
    expected = np.ones((4, 2), np.float32)
    for rank in range(SIZE):
        expected[rows[rank]] -= (rank + 1) / SIZE
    for name, how in {
        "sparse": {}, "sparse, as dense": {"sparse_as_dense": True}, "sparse, group": {"groups": 1},
        "sparse, passes": {"sparse_as_dense": True, "backward_passes_per_step": 2},
    }.items():
        optimizer = hvd.DistributedOptimizer(sgd(), **how)
        table, dense = variable(np.ones((4, 2))), variable(np.ones(2))

        def loss(table=table, dense=dense):
            looked_up = tf.gather(table if LEGACY else table.value, rows[RANK])
            return (RANK + 1) * (tf.reduce_sum(looked_up)
                                 + tf.reduce_sum(tf.convert_to_tensor(dense)))

        passes = how.get("backward_passes_per_step", 1)
        for _ in range(passes):
            optimizer.apply_gradients(optimizer.compute_gradients(loss, [table, dense]))
        end = (expected - 1) * passes + 1
        mean = 1 - passes * sum(range(1, SIZE + 1)) / SIZE
        pairs[name] = [lists([table, dense]), lists([end, np.full(2, mean)])]


def missing_gradients() -> None:
    for passes in 1, 2:
        optimizer = hvd.DistributedOptimizer(sgd(), backward_passes_per_step=passes)
        used, unused = variable([1.0]), variable([1.0])
        for _ in range(passes):
            of = optimizer.compute_gradients(
                lambda: (RANK + 1.0) * tf.convert_to_tensor(used), [unused, used])
            optimizer.apply_gradients(of)
        mean = sum(range(1, SIZE + 1)) / SIZE
        pairs[f"missing, {passes}"] = [lists([used, unused]), [[1.0 - passes * mean], [1.0]]]


def partial() -> None:
    layers = [keras.layers.Dense(1, use_bias=False, kernel_initializer="ones") for _ in range(2)]
    model = keras.Sequential([keras.Input((1,)), *layers])
    weights = model.trainable_weights
    inputs = tf.constant([[RANK + 1.0]])
    mean = sum(range(1, SIZE + 1)) / SIZE

    optimizer = hvd_keras.PartialDistributedOptimizer(sgd(), local_layers=layers[:1])
    computed = optimizer.compute_gradients(lambda: tf.reduce_sum(model(inputs)), weights)
    pairs["partial optimizer"] = [lists(gradient for gradient, _ in computed),
                                  [[[(RANK + 1) / SIZE]], [[mean]]]]

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs))
    tape = hvd_tf.PartialDistributedGradientTape(tape, local_layers=layers[0],
                                                 scale_local_gradients=False)
    pairs["partial tape"] = [lists(tape.gradient(loss, weights)), [[[RANK + 1.0]], [[mean]]]]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs))
    tape = hvd_tf.DistributedGradientTape(tape, groups=[weights])
    pairs["tape"] = [lists(tape.gradient(loss, weights)), [[[mean]], [[mean]]]]


def partial_passes() -> None:
    """horovod.keras' optimizer with a local layer: two passes, then a sum."""
    layers = [keras.layers.Dense(1, use_bias=False, kernel_initializer="ones") for _ in range(2)]
    model = keras.Sequential([keras.Input((1,)), *layers])
    weights = model.trainable_weights
    for average in False, True:
        optimizer = hvd_keras.PartialDistributedOptimizer(
            sgd(), local_layers=layers[:1], backward_passes_per_step=2,
            average_aggregated_gradients=average)
        for weight in weights:
            weight.assign([[1.0]])
        inputs = tf.constant([[RANK + 1.0]])
        for _ in range(2):
            optimizer.apply_gradients(
                optimizer.compute_gradients(lambda: tf.reduce_sum(model(inputs)), weights))
        total = 1.0 if average else 2.0
        mean = sum(range(1, SIZE + 1)) / SIZE
        pairs[f"partial optimizer, {'averaged' if average else 'added'}"] = [
            lists(weights), [[[1 - total * (RANK + 1) / SIZE]], [[1 - total * mean]]]]


def step_of(optimizer, variables: list) -> Callable:
    """Each element's gradient is the rank's number, from one on."""
    def loss():
        return sum((RANK + 1.0) * tf.reduce_sum(tf.convert_to_tensor(v)) for v in variables)

    return lambda: optimizer.apply_gradients(optimizer.compute_gradients(loss, variables))


def elastic_sizes() -> None:
    """Gradients that stay on their rank, of any type, divided by what elastic jobs ask for in every
    step: the number of ranks as a tensor."""
    os.environ["HOROVOD_ELASTIC"] = "1"
    try:
        for dtype in tf.float16, tf.bfloat16, tf.float32, tf.float64:
            table = tf.Variable(np.ones((4, 2)), dtype=dtype)
            dense = tf.Variable(np.ones(2), dtype=dtype)
            shared = tf.Variable(np.ones(2), dtype=dtype)

            def local_gradients(table=table, dense=dense, shared=shared):
                with tf.GradientTape() as tape:
                    loss = (RANK + 1) * sum(map(tf.reduce_sum, (tf.gather(table, [1, 3]), dense,
                                                                shared)))
                tape = hvd_tf.DistributedGradientTape(tape)
                tape.register_local_source(table)
                tape.register_local_source(dense)
                return tape.gradient(loss, [table, dense, shared])

            own = (RANK + 1) / SIZE
            rows = [[0.0, 0.0], [own, own], [0.0, 0.0], [own, own]]
            mean = sum(range(1, SIZE + 1)) / SIZE
            for kind, of in {"eager": local_gradients,
                             "graph": tf.function(local_gradients)}.items():
                pairs[f"elastic tape, {dtype.name}, {kind}"] = [
                    lists(tf.cast(tf.convert_to_tensor(g), tf.float32) for g in of()),
                    [rows, [own, own], [mean, mean]]]

        weight = tf.Variable([1.0, 2.0])
        optimizer = hvd_tf.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
        optimizer.register_local_var(weight)
        computed = optimizer.compute_gradients(
            lambda: (RANK + 1.0) * tf.reduce_sum(weight), [weight])
        pairs["elastic optimizer of tf.compat.v1"] = [lists([computed[0][0]]), [[own, own]]]

        for kind, graph in {"eager": False, "graph": True}.items():
            optimizer = hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2)
            variables = start()
            optimizer.register_local_var(variables[1])

            step = step_of(optimizer, variables)
            step = tf.function(step) if graph else step
            for _ in range(2):
                step()
            pairs[f"elastic passes, {kind}"] = [
                lists(variables),
                lists([np.full((3, 2), 1 - 2 * mean), np.full(2, 1 - 2 * own),
                       np.full(2, 1 - 2 * mean)])]
    finally:
        del os.environ["HOROVOD_ELASTIC"]


def operations() -> None:
    """Horovod's own operations on variables of Keras."""
    own = [float(RANK), 2.0]
    for name, how in {"allreduce": {}, "allreduce fp16": {"compression": hvd.Compression.fp16},
                      "allreduce bf16": {"compression": hvd.Compression.bf16}}.items():
        pairs[name] = [lists([hvd_tf.allreduce(variable(own), op=hvd.Sum, **how)]),
                       [[float(sum(range(SIZE))), 2.0 * SIZE]]]
    for inplace in False, True:
        variables = [variable(own), variable([10.0 * RANK])]
        hvd_tf.broadcast_variables(variables, root_rank=1, inplace=inplace)
        pairs[f"broadcast, inplace={inplace}"] = [lists(variables), [[1.0, 2.0], [10.0]]]
    pairs["keras.allreduce"] = [lists([hvd_keras.allreduce(variable(own))]),
                                [[sum(range(SIZE)) / SIZE, 2.0]]]
    pairs["keras.allgather"] = [lists([hvd.allgather(variable(own))]), [[0.0, 2.0, 1.0, 2.0]]]


def loss_scale() -> None:
    """In the second of three steps, only the last rank's gradient is not finite."""
    scaler = keras.optimizers.LossScaleOptimizer
    for name, optimizer in {
        "inside": scaler(hvd.DistributedOptimizer(sgd()), initial_scale=8.0),
        "outside": hvd.DistributedOptimizer(scaler(sgd(), initial_scale=8.0)),
    }.items():
        weight = variable([1.0])
        scales = []
        for step in range(3):
            infinite = step == 1 and RANK == SIZE - 1
            gradient = np.inf if infinite else (RANK + 1.0) * float(optimizer.scale_loss(1.0))
            optimizer.apply([tf.constant([gradient], tf.float32)], [weight])
            scales.append(float(optimizer.dynamic_scale))
        pairs[f"loss scale {name}"] = [
            [scales, lists([weight])[0], [float(optimizer.iterations)]],
            [[8.0, 4.0, 4.0], [1.0 - 2 * sum(range(1, SIZE + 1)) / SIZE], [2.0]]]


def run() -> dict:
    each_optimizer()
    options()
    local_variables()
    several_passes()
    sparse()
    partial()
    partial_passes()
    elastic_sizes()
    operations()
    if not LEGACY:
        missing_gradients()
        loss_scale()
    return {"pairs": pairs, "values": values}
