"""Programs with an optimizer of Keras 3: with hvd.DistributedOptimizer and without.

As in torch_optimizer.py: two ranks with a gradient each must do what one process does with the
mean of both.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import tempfile
from collections.abc import Callable

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from common import RANK
from keras_common import SIZE, draw, error_of, keras, lists, network

STEPS = 4
SHAPES = (3, 2), (2,)
optimizers = keras.optimizers
Program = Callable[["Run"], object]


class Run:
    def __init__(self, distributed: bool):
        self.distributed = distributed
        self.ranks = [RANK] if distributed else range(SIZE)
        self.weights = [keras.Variable(np.ones(shape, np.float32), name=f"weight_{i}")
                        for i, shape in enumerate(SHAPES)]

    def wrap(self, optimizer: object, **how: object) -> object:
        return hvd.DistributedOptimizer(optimizer, **how) if self.distributed else optimizer

    def gradients(self, step: int) -> list[tf.Tensor]:
        return [tf.constant(sum(draw(step, rank, i, shape=shape) for rank in self.ranks)
                            / len(self.ranks)) for i, shape in enumerate(SHAPES)]

    def train(self, optimizer: object, steps: int = STEPS, first: int = 0) -> list:
        for step in range(first, first + steps):
            optimizer.apply(self.gradients(step), self.weights)
        return lists(self.weights)


# Each class and each argument of the constructor


def optimizer_classes() -> dict[str, Callable]:
    classes = inspect.getmembers(optimizers, inspect.isclass)
    makers = {name: lambda cls=cls: cls(0.05) for name, cls in classes
              if issubclass(cls, optimizers.Optimizer) and cls is not optimizers.Optimizer}
    makers["LossScaleOptimizer"] = lambda: optimizers.LossScaleOptimizer(
        optimizers.Adam(0.05), initial_scale=2.0)
    if "MultiOptimizer" in makers:
        makers["MultiOptimizer"] = lambda: optimizers.MultiOptimizer(optimizers.OptimizerMap(
            optimizers.Adam(0.05), {"weight_1": optimizers.SGD(0.1)}))
    return makers


class Half(optimizers.schedules.LearningRateSchedule):
    """A user's, which Keras has not been told about."""

    def __call__(self, step: object) -> object:
        return 0.1 * 0.5 ** tf.cast(step, tf.float32)


ARGUMENTS = {
    "learning_rate": lambda: optimizers.SGD(learning_rate=0.3),
    "learning_rate, schedule": lambda: optimizers.SGD(
        optimizers.schedules.CosineDecay(0.1, decay_steps=3)),
    "learning_rate, own schedule": lambda: optimizers.SGD(Half()),
    "learning_rate, function": lambda: optimizers.SGD(lambda: 0.2),
    "weight_decay": lambda: optimizers.Adam(0.1, weight_decay=0.1),
    "clipnorm": lambda: optimizers.SGD(0.1, clipnorm=0.3),
    "clipvalue": lambda: optimizers.SGD(0.1, clipvalue=0.2),
    "global_clipnorm": lambda: optimizers.SGD(0.1, global_clipnorm=0.3),
    "use_ema": lambda: optimizers.SGD(0.1, use_ema=True),
    "ema_momentum": lambda: optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    "ema_overwrite_frequency": lambda: optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "loss_scale_factor": lambda: optimizers.SGD(0.1, loss_scale_factor=4.0),
    "gradient_accumulation_steps": lambda: optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "name": lambda: optimizers.SGD(0.1, name="mine"),
}


def trains(make: Callable) -> Program:
    def program(run: Run) -> object:
        optimizer = run.wrap(make())
        run.train(optimizer)
        optimizer.finalize_variable_values(run.weights)
        return (lists(run.weights), lists(optimizer.variables),
                [path_of(variable) for variable in optimizer.variables])

    return program


def path_of(variable: keras.Variable) -> str:
    """Below the optimizer's name. Keras numbers what has no name of its own."""
    return re.sub(r"\b(adam|variable)(_\d+)?\b", r"\1", variable.path.partition("/")[2])


def named(run: Run) -> object:
    optimizer = run.wrap(optimizers.Adam(name="mine"))
    optimizer.build(run.weights)
    return optimizer.name, [variable.path for variable in optimizer.variables]


class Own(optimizers.Optimizer):
    """A user's: its configuration cannot be had, and one argument has no default."""

    def __init__(self, rate: float, *, scale: float):
        super().__init__(learning_rate=rate)
        self.scale = scale

    def update_step(self, gradient: object, variable: object, learning_rate: object) -> None:
        self.assign_sub(variable, self.scale * tf.cast(learning_rate, gradient.dtype) * gradient)


def own_class(run: Run) -> object:
    return run.train(run.wrap(Own(0.1, scale=2.0)))


# Each method


def apply(run: Run) -> object:
    """With and without variables, in a graph; nothing to apply; too much to apply."""
    optimizer = run.wrap(optimizers.SGD(0.1, momentum=0.9))
    early = error_of(optimizer.apply, run.gradients(0))
    optimizer.apply([])
    optimizer.build(run.weights)
    optimizer.apply(run.gradients(0))
    optimizer.apply(grads=run.gradients(1), trainable_variables=tuple(run.weights))
    step = tf.function(lambda *gradients: optimizer.apply(list(gradients)))
    for number in range(2, 5):
        step(*run.gradients(number))
    errors = [early, error_of(optimizer.apply, run.gradients(0)[:1]),
              error_of(optimizer.apply, [None, None], run.weights)]
    return lists(run.weights), [error.partition("Received")[0] for error in errors]


def apply_gradients(run: Run) -> object:
    optimizer = run.wrap(optimizers.SGD(0.1))
    counts = [int(optimizer.apply_gradients(zip(run.gradients(step), run.weights)))
              for step in range(3)]
    optimizer.apply_gradients([(None, run.weights[0]), (run.gradients(3)[1], run.weights[1])])
    return counts, lists(run.weights), int(optimizer.iterations)


def add_variables(run: Run) -> object:
    optimizer = run.wrap(optimizers.SGD(0.1, momentum=0.9))
    optimizer.build(run.weights)
    mine = [optimizer.add_variable((2,), "ones", name="more"),
            optimizer.add_variable_from_reference(run.weights[0], name="twin"),
            *optimizer.add_optimizer_variables(run.weights, "each", "ones")]
    optimizer.assign(mine[0], [3.0, 4.0])
    optimizer.assign_add(mine[0], [1.0, 1.0])
    optimizer.assign_sub(mine[1], np.ones((3, 2)))
    return run.train(optimizer), lists(optimizer.variables), len(optimizer.variables)


def exclude_before_wrapping(run: Run) -> object:
    adam = optimizers.AdamW(0.1, weight_decay=0.5)
    adam.exclude_from_weight_decay(var_names=["weight_1"])
    return run.train(run.wrap(adam))


def exclude_from_weight_decay(run: Run) -> object:
    optimizer = run.wrap(optimizers.AdamW(0.1, weight_decay=0.5))
    optimizer.exclude_from_weight_decay(var_list=run.weights[:1])
    return run.train(optimizer)


def learning_rate(run: Run) -> object:
    optimizer = run.wrap(optimizers.SGD(0.1))
    run.train(optimizer, 1)
    optimizer.learning_rate = 0.5
    run.train(optimizer, 1)
    rates = [float(optimizer.learning_rate)]
    optimizer.learning_rate = Half()
    rates.append(float(optimizer.learning_rate))
    return rates, run.train(optimizer), len(optimizer.variables)


def saved_variables(run: Run) -> object:
    optimizer = run.wrap(optimizers.Adam(0.1))
    run.train(optimizer)
    store: dict = {}
    optimizer.save_own_variables(store)
    others = [run.wrap(optimizers.Adam(0.1)) for _ in range(3)]
    for copied in others:
        copied.build(run.weights)
    others[0].load_own_variables(store)
    others[1].set_weights([np.array(variable) for variable in optimizer.variables])
    folder = tempfile.mkdtemp()
    tf.train.Checkpoint(optimizer=optimizer).save(f"{folder}/saved")
    tf.train.Checkpoint(optimizer=others[2]).restore(tf.train.latest_checkpoint(folder))
    return [run.train(copied, 1, first=STEPS) for copied in others]


def wrapped_in_the_middle(run: Run) -> object:
    adam = optimizers.Adam(0.1)
    alone = Run(distributed=False)
    alone.weights = run.weights
    alone.train(adam, 2)
    optimizer = run.wrap(adam)
    return run.train(optimizer, 2), int(optimizer.iterations), optimizer.built


def configuration(run: Run) -> object:
    optimizer = run.wrap(optimizers.Adam(0.1, beta_1=0.8, name="mine"))
    again = type(optimizer).from_config(optimizer.get_config())
    return optimizer.get_config(), run.train(again)


def copied(run: Run) -> object:
    """Keras copies the configuration alone."""
    optimizer = run.wrap(optimizers.SGD(0.1, momentum=0.5))
    run.train(optimizer, 1)
    ways = (copy.deepcopy, copy.copy, lambda whole: pickle.loads(pickle.dumps(whole)))
    return [run.train(duplicate(optimizer)) for duplicate in ways]


def update_step_and_loss(run: Run) -> object:
    """What only looks at this rank is this rank's."""
    optimizer = run.wrap(optimizers.SGD(0.5, loss_scale_factor=8.0))
    optimizer.build(run.weights)
    optimizer.update_step(tf.ones((3, 2)), run.weights[0], tf.constant(0.5))
    return float(optimizer.scale_loss(2.0)), lists(run.weights)


def stateless_apply(run: Run) -> object:
    optimizer = run.wrap(optimizers.SGD(0.5))
    return error_of(optimizer.stateless_apply, [], [], [])


def finalize(run: Run) -> object:
    optimizer = run.wrap(optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))
    run.train(optimizer)
    optimizer.finalize_variable_values(run.weights)
    return lists(run.weights)


def fit(run: Run) -> object:
    model = network(0.5, keras.layers.Dense(3, kernel_initializer="ones"))
    optimizer = run.wrap(optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5,
                                         gradient_accumulation_steps=2, clipnorm=1.0))
    model.compile(optimizer, "mse")
    inputs, targets = draw(1, shape=(8, 2)), draw(2, shape=(8, 1))
    rows = slice(RANK, None, SIZE) if run.distributed else slice(None)
    model.fit(inputs[rows], targets[rows], batch_size=len(inputs[rows]) // 2, epochs=2,
              shuffle=False, verbose=0)
    return lists(model.weights), lists(optimizer.variables)


METHODS = {
    "add_optimizer_variables": add_variables, "add_variable": add_variables,
    "add_variable_from_reference": add_variables, "apply": apply,
    "apply_gradients": apply_gradients, "assign": add_variables, "assign_add": add_variables,
    "assign_sub": add_variables, "build": apply,
    "exclude_from_weight_decay": exclude_from_weight_decay,
    "finalize_variable_values": finalize, "from_config": configuration,
    "get_config": configuration, "iterations": apply_gradients, "learning_rate": learning_rate,
    "load_own_variables": saved_variables, "save_own_variables": saved_variables,
    "scale_loss": update_step_and_loss, "set_weights": saved_variables,
    "stateless_apply": stateless_apply, "update_step": update_step_and_loss,
    "variables": saved_variables,
}
PROGRAMS: dict[str, Program] = {
    **{f"class {name}": trains(make) for name, make in optimizer_classes().items()},
    **{f"argument {name}": trains(make) for name, make in ARGUMENTS.items()},
    **{program.__name__: program for program in METHODS.values()},
    **{program.__name__: program for program in (
        named, own_class, exclude_before_wrapping, wrapped_in_the_middle, copied, fit)},
}


def passes_and(**arguments: object) -> str:
    optimizer = optimizers.SGD(0.1, **arguments)
    return error_of(hvd.DistributedOptimizer, optimizer, backward_passes_per_step=2)


def errors() -> dict[str, str]:
    used = optimizers.SGD(0.1)
    distributed = hvd.DistributedOptimizer(used)
    scaler = optimizers.LossScaleOptimizer(distributed)
    return {
        "twice": error_of(hvd.DistributedOptimizer, distributed),
        "twice, scaled": error_of(hvd.DistributedOptimizer, scaler),
        "used": error_of(hvd.DistributedOptimizer, used),
        "accumulated": passes_and(gradient_accumulation_steps=2),
        "averaged": passes_and(use_ema=True, ema_overwrite_frequency=3),
    }


def same(first: object, second: object) -> bool:
    if isinstance(first, dict):
        return list(first) == list(second) and same(list(first.values()), list(second.values()))
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= 1e-4 * max(1.0, abs(second))
    return first == second


def compare(program: Program) -> str:
    results = []
    for distributed in True, False:
        try:
            results.append(program(Run(distributed)))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}")
    return "" if same(*results) else f"{results[0]} with Horovod, {results[1]} without"


def run() -> dict:
    public = {name for name in dir(optimizers.Optimizer) if not name.startswith("_")}
    arguments = set(inspect.signature(optimizers.Optimizer.__init__).parameters)
    tried = {name.partition(",")[0] for name in ARGUMENTS}
    return {
        "programs": {name: compare(program) for name, program in PROGRAMS.items()},
        "errors": errors(),
        "missed": sorted((public - set(METHODS)) | (arguments - tried - {"self", "kwargs",
                                                                       "args"})),
    }
