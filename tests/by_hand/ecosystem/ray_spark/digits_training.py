"""What the workers of every job run: a small network learns handwritten digits, elastically or not.

    python digits_training.py torch FILE      under horovodrun: rank 0 writes what all ranks report

Batches follow from the step and the rank alone, so a job that has lost a worker and taken up the
last commit ends with the weights of one that has not. Nothing of a framework is imported before a
worker runs this.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import digits
import numpy as np

BATCH, RATE, SEED = 16, 0.05, 0
STEPS = 120
COMMIT_EVERY = 10  # steps; a commit asks all ranks whether somebody came, by a broadcast
LOST = "lost"  # the file that says that it has been
LOST_AT = 55  # the step after which rank 1 of an elastic job is killed, once


class Torch:
    def __init__(self):
        import horovod.torch as hvd
        import torch
        from pytorch_digits import as_tensors, network

        self.hvd, self.torch, self.as_tensors = hvd, torch, as_tensors
        hvd.init()
        torch.set_num_threads(1)
        torch.manual_seed(SEED + hvd.rank())
        self.model = network()
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9),
            named_parameters=self.model.named_parameters())

    def begin(self) -> None:
        self.hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)

    def state(self):
        return self.hvd.elastic.TorchState(self.model, self.optimizer, step=0)

    def step(self, images: np.ndarray, labels: np.ndarray) -> None:
        images, labels = self.as_tensors(images, labels, self.torch.device("cpu"))
        self.optimizer.zero_grad()
        self.torch.nn.functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()

    def weights(self) -> list[np.ndarray]:
        return [tensor.numpy() for tensor in self.model.state_dict().values()]

    def predict(self, images: np.ndarray) -> np.ndarray:
        with self.torch.no_grad():
            return self.model(self.torch.from_numpy(images).unsqueeze(1)).numpy()


class TensorFlow:
    def __init__(self):
        import horovod.tensorflow as hvd
        import tensorflow as tf
        from tensorflow2_digits import Momentum, Network

        self.hvd, self.tf = hvd, tf
        hvd.init()
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(2)
        self.network = Network(SEED + hvd.rank())
        self.variables = self.network.trainable_variables
        self.optimizer = Momentum(self.variables)
        self.optimizer.learning_rate.assign(RATE)

        @tf.function(reduce_retracing=True)
        def train_step(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, self.network(images)))
            tape = hvd.DistributedGradientTape(tape)
            self.optimizer.apply(tape.gradient(loss, self.variables), self.variables)

        self.train_step = train_step

    def begin(self) -> None:
        self.hvd.broadcast_variables(self._all(), root_rank=0)

    def state(self):
        return self.hvd.elastic.TensorFlowState(variables=self._all(), step=0)

    def step(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.train_step(self.tf.constant(images), self.tf.constant(labels))

    def weights(self) -> list[np.ndarray]:
        return [variable.numpy() for variable in self.network.variables]

    def predict(self, images: np.ndarray) -> np.ndarray:
        return self.network(self.tf.constant(images)).numpy()

    def _all(self) -> list:
        return [*self.network.variables, *self.optimizer.variables]


FRAMEWORKS = {"torch": Torch, "tensorflow": TensorFlow}


def train(framework: str) -> dict:
    """One rank of a job in which nobody comes or goes; what it reports."""
    job = FRAMEWORKS[framework]()
    job.begin()
    rounds = _steps(job, digits.load(), range(STEPS))
    return _report(job, rounds)


def train_elastic(framework: str, folder: str) -> dict:
    """One rank of an elastic job. The first rank 1 kills itself; `folder` holds the mark of it."""
    job = FRAMEWORKS[framework]()
    data = digits.load()
    mark = Path(folder) / LOST

    @job.hvd.elastic.run
    def run(state):
        rounds = []
        while state.step < STEPS:
            block = range(state.step, min(state.step + COMMIT_EVERY, STEPS))
            lost_here = job.hvd.rank() == 1 and LOST_AT in block and not mark.exists()
            if lost_here:
                block = range(block.start, LOST_AT)
            rounds += _steps(job, data, block)
            if lost_here:
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            state.step = block.stop
            state.commit()
        return rounds

    return _report(job, run(job.state()))


def _steps(job, data: digits.Digits, steps: range) -> list[int]:
    """Does them; for each, how many rounds of negotiation were asked for until its end."""
    import horovod_opt

    rounds = []
    for step in steps:
        job.step(*_batch(data, step, job.hvd.rank(), job.hvd.size()))
        rounds.append(horovod_opt.stats().requested_rounds)
    return rounds


def _batch(data: digits.Digits, step: int, rank: int, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.random.default_rng((SEED, step)).permutation(len(data.train_images))
    chosen = chosen[rank * BATCH:(rank + 1) * BATCH]
    return data.train_images[chosen], data.train_labels[chosen]


def _report(job, rounds: list[int]) -> dict:
    import horovod_opt

    data, stats = digits.load(), horovod_opt.stats()
    sha = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in job.weights()))
    correct = job.predict(data.test_images).argmax(axis=1) == data.test_labels
    report = {
        "rank": job.hvd.rank(), "size": job.hvd.size(), "pid": os.getpid(),
        "mode": stats.mode, "controller": stats.controller,
        "weights": sha.hexdigest(), "accuracy": float(correct.mean()),
        "steady_rounds": rounds[-1] - rounds[-COMMIT_EVERY],
        "planned_iterations": stats.planned_iterations,
        "plans": [plan.state for plan in horovod_opt.plans()],
    }
    job.hvd.shutdown()
    return report


def main() -> None:
    framework, file = sys.argv[1:]
    report = train(framework)
    if report["rank"] == 0:
        Path(file).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
