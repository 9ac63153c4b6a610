"""One process of one of Keras' examples: rank.py JOB, where JOB is JSON.

    {"way": "one" | "mirrored" | "horovod", "example": FILE, "constants": {NAME: VALUE},
     "fits": how many, "epochs": of each at most, "seed": INTEGER, "result": FILE}

The example runs as it is, but for `constants`, lines `NAME = ...` that get another value, until it
has called `fit()` so often. What Horovod needs is done when it calls `compile()` and `fit()`.
Rank 0 writes {"losses": of each epoch, "rate": samples a second, "step": seconds, "rounds": of
negotiation in steady state}.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 4
MOST_TEXT = 240  # of an error, characters
PORT = 23450  # of MultiWorkerMirroredStrategy's first worker


class TrainingDone(BaseException):
    """The example has trained as long as it should: its pictures and texts are not wanted."""


class Share:
    """Rank's rows of each global batch; all of it for one process."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks = rank, ranks

    def _bounds(self, rows: Any) -> slice:
        each = rows // self.ranks
        return slice(self.rank * each, (self.rank + 1) * each)

    def of_arrays(self, arrays: Any, count: int, batch: int) -> Any:
        """Of arrays of `count` rows: no more of the last batch than divides by RANKS."""
        import keras
        import numpy as np

        places: list[int] = []
        for start in range(0, count, batch):
            rows = min(batch, count - start) // RANKS * RANKS
            places += np.arange(start, start + rows)[self._bounds(rows)].tolist()
        return keras.tree.map_structure(lambda array: np.asarray(array)[places], arrays)

    def of_dataset(self, dataset: Any) -> Any:
        import tensorflow as tf

        def take(*batch: Any) -> Any:
            rows = tf.shape(tf.nest.flatten(batch)[0])[0] // RANKS * RANKS
            share = tf.nest.map_structure(lambda tensor: tensor[self._bounds(rows)], batch)
            return share if len(share) > 1 else share[0]

        options = tf.data.Options()
        options.deterministic = True
        return dataset.map(take).with_options(options)


class Records:
    """What is told at the end."""

    def __init__(self, share: Share):
        self.share = share
        self.losses: list[float] = []
        self.rate = self.step = None

    def callback(self, batch: int | None) -> Any:
        """`batch`: the rows of this process in a step, where known."""
        import keras

        records = self

        class Recorder(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
                self.first, self.steps = None, 0

            def on_train_batch_end(self, _: int, logs: dict | None = None) -> None:
                # From the end of the first step: that one traces.
                if self.first is None:
                    self.first = time.perf_counter()
                else:
                    self.steps += 1
                self.last = time.perf_counter()

            def on_epoch_end(self, _: int, logs: dict | None = None) -> None:
                losses = {name: float(value) for name, value in logs.items()
                          if name.endswith("loss") and not name.startswith("val_")}
                records.losses.append(losses.get("loss", sum(losses.values())))
                if self.steps:
                    seconds = (self.last - self.first) / self.steps
                    records.rate = records.share.ranks * batch / seconds if batch else None
                    records.step = seconds

        return Recorder()


def wrap_fit(share: Share, records: Records, job: dict, callbacks: Callable[[], list],
             wrap: Callable[[Any], Any]) -> None:
    """`callbacks` makes those that Horovod needs, `wrap` its optimizer of another."""
    import keras
    import tensorflow as tf
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    from keras.src.trainers.trainer import Trainer

    fit, compile_model = TensorFlowTrainer.fit, Trainer.compile
    fits = 0

    def compile_wrapped(model: Any, optimizer: Any = "rmsprop", *more: Any, **options: Any) -> None:
        compile_model(model, wrap(keras.optimizers.get(optimizer)), *more, **options)

    def fit_share(model: Any, x: Any = None, y: Any = None, batch_size: int | None = None,
                  epochs: int = 1, **options: Any) -> Any:
        nonlocal fits
        given = options.pop("callbacks", None) or []
        for name, value in list(vars(model).items()):
            if isinstance(value, keras.optimizers.Optimizer) and value is not model.optimizer:
                setattr(model, name, wrap(value))
        options.update(shuffle=False, epochs=min(epochs, job["epochs"]), verbose=0)
        if isinstance(x, tf.data.Dataset):
            x, batch = share.of_dataset(x), None
            for first in x.take(1):
                batch = int(tf.nest.flatten(first)[0].shape[0])
            data = {"x": x}
        else:
            size = batch_size or 32
            arrays = {"x": x, "y": y, "sample_weight": options.pop("sample_weight", None)}
            arrays = {name: array for name, array in arrays.items() if array is not None}
            count = len(keras.tree.flatten(arrays)[0])
            kept = int(count * (1 - options.pop("validation_split", 0)))
            data = share.of_arrays(arrays, kept, size)
            batch = size // share.ranks
            data["batch_size"] = batch
        options.pop("validation_data", None)
        history = fit(model, **data, callbacks=[*callbacks(), records.callback(batch), *given],
                      **options)
        fits += 1
        if fits >= job["fits"]:
            raise TrainingDone
        return history

    Trainer.compile = compile_wrapped
    TensorFlowTrainer.fit = fit_share


def source_of(job: dict) -> str:
    """Raises SystemExit: there is no such line."""
    text = Path(job["example"]).read_text()
    for name, value in job["constants"].items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, count=1, flags=re.M)
        if not count:
            raise SystemExit(f"{job['example']} has no line `{name} = ...`")
    return text


def run(job: dict) -> None:
    text = source_of(job)
    rank = int(os.environ.get("HOROVOD_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", 0)))
    if job["way"] == "mirrored":
        workers = [f"h{1 + worker // 2}:{PORT + worker}" for worker in range(RANKS)]
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
    import keras
    import made_data
    import matplotlib
    import tensorflow as tf

    matplotlib.use("Agg")
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if job["way"] == "mirrored" else None
    if job["way"] == "horovod":
        import horovod.tensorflow.keras as hvd

        hvd.init()
        share = Share(hvd.rank(), hvd.size())
        assert hvd.size() == RANKS, hvd.size()
    else:
        share = Share(0, 1)
    records = Records(share)
    made_data.install()
    keras.utils.set_random_seed(job["seed"])
    if job["way"] == "horovod":
        wrap_fit(share, records, job, lambda: [
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback()], hvd.DistributedOptimizer)
    else:
        wrap_fit(share, records, job, list, lambda optimizer: optimizer)
    module = {"__name__": "__main__", "__file__": job["example"]}
    code = compile(text, job["example"], "exec")
    result = None
    try:
        with strategy.scope() if strategy else contextlib.nullcontext():
            exec(code, module)
    except TrainingDone:
        result = {"losses": records.losses, "rate": records.rate, "step": records.step}
        if job["way"] == "horovod":
            import horovod_opt

            result["rounds"] = horovod_opt.stats().steady_rounds
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if len(text) > MOST_TEXT:  # it may show a whole batch
            text = f"{text[:MOST_TEXT // 2]} ... {text[-MOST_TEXT // 2:]}"
        result = {"error": text}
        raise
    finally:
        if rank == 0:
            Path(job["result"]).write_text(json.dumps(
                result or {"error": "ended before it had trained enough"}))


def main() -> None:
    job = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="keras-example-") as folder:
        os.environ.update(HOME=folder, KERAS_HOME=folder, KERAS_BACKEND="tensorflow")
        os.chdir(folder)
        run(job)


if __name__ == "__main__":
    main()
