"""One rank of a program that others have written for Horovod: NAME FOLDER STEPS.

Each starts the program as its users do, on data that it makes itself or that is made here. Rank 0
writes FOLDER/result.json: a hash of its weights, losses of its steps, seconds of one in the second
half, and how many rounds of negotiation it asked for in steady state.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

BATCH = 8
TRAININGS: dict[str, Callable[[Path, int, "Progress"], list]] = {}


def training(function: Callable) -> Callable:
    TRAININGS[function.__name__] = function
    return function


class Progress:
    """Of this rank's steps."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.times: list[float] = []
        self.rounds = 0

    def step(self, loss: float) -> None:
        import horovod_opt

        self.losses.append(float(loss))
        self.times.append(time.perf_counter())
        self.rounds = horovod_opt.stats().steady_rounds

    def summary(self) -> dict:
        half = len(self.times) // 2
        steps = len(self.times) - 1 - half
        return {"losses": self.losses, "step": (self.times[-1] - self.times[half]) / steps,
                "rounds": self.rounds}


def import_torchvision() -> None:
    """Its wheels are built for CUDA: beside the CPU's PyTorch its operators are absent, and their
    shapes cannot be registered. None of these trainings calls one."""
    import torch

    def ignore(*_: object, **__: object) -> Callable:
        return lambda function: function

    with mock.patch.object(torch.library, "register_fake", ignore):
        import torchvision  # noqa: F401


class Messages(logging.Handler):
    """Tells progress the loss of each message that has one."""

    def __init__(self, progress: Progress, pattern: str):
        super().__init__()
        self.progress, self.pattern = progress, re.compile(pattern)

    def emit(self, record: logging.LogRecord) -> None:
        if found := self.pattern.search(record.getMessage()):
            self.progress.step(float(found[1]))


@training
def open_clip_torch(folder: Path, steps: int, progress: Progress) -> list:
    import_torchvision()
    import open_clip
    import torch
    from open_clip_train import data, main
    from PIL import Image

    data._SAMPLE_SHUFFLE_SIZE = data._SAMPLE_SHUFFLE_INITIAL = 1  # else by the time of the day
    size = {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8}
    words = {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2}
    configuration = folder / "tiny.json"
    configuration.write_text(json.dumps({"embed_dim": 64, "vision_cfg": size, "text_cfg": words}))
    open_clip.add_model_config(configuration)
    pixels = np.random.default_rng(1).integers(0, 256, (2 * BATCH * steps, 32, 32, 3), np.uint8)
    for shard, pictures in enumerate(np.split(pixels, 2)):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for number, picture in enumerate(pictures):
                file = folder / f"{number:04}.png"
                Image.fromarray(picture).save(file)
                archive.add(file, file.name)
                text = file.with_suffix(".txt")
                text.write_text(f"picture of a thing called {number}")
                archive.add(text, text.name)
    logging.getLogger().addHandler(Messages(progress, r" Loss: ([\d.]+) "))
    main.main(["--horovod", "--dataset-type", "webdataset",
               "--train-data", f"{folder}/{{0..1}}.tar",
               "--train-num-samples", str(len(pixels)), "--model", "tiny", "--workers", "1",
               "--batch-size", str(BATCH), "--epochs", "1", "--log-every-n-steps", "1",
               "--warmup", "5", "--lr", "1e-3", "--precision", "fp32", "--device", "cpu",
               "--logs", str(folder), "--name", "run", "--gather-with-grad", "--local-loss",
               "--save-frequency", "1"])
    saved = folder / "run/checkpoints/epoch_1.pt"
    return list(torch.load(saved)["state_dict"].values()) if saved.exists() else []


@training
def deepmd_kit(folder: Path, steps: int, progress: Progress) -> list:
    from deepmd.main import main

    frames, atoms, draw = 4 * BATCH, 12, np.random.default_rng(1)
    data = folder / "data/set.000"
    data.mkdir(parents=True)
    (folder / "data/type.raw").write_text("\n".join(["0", "1", "1"] * (atoms // 3)))
    (folder / "data/type_map.raw").write_text("O\nH\n")
    np.save(data / "box.npy", np.tile(np.eye(3).reshape(-1) * 8, (frames, 1)))
    for name, columns, scale in (("coord", 3 * atoms, 8), ("force", 3 * atoms, 1),
                                 ("energy", 1, -100)):
        np.save(data / f"{name}.npy", scale * draw.random((frames, columns)))
    (folder / "input.json").write_text(json.dumps({
        "model": {
            "type_map": ["O", "H"],
            "descriptor": {"type": "se_e2_a", "sel": [8, 8], "rcut_smth": 0.5, "rcut": 4.0,
                           "neuron": [8, 16], "axis_neuron": 4, "seed": 1},
            "fitting_net": {"neuron": [32, 32], "seed": 1}},
        "learning_rate": {"type": "exp", "decay_steps": 100, "start_lr": 0.001, "stop_lr": 1e-5},
        "loss": {"start_pref_e": 0.02, "limit_pref_e": 1, "start_pref_f": 1000, "limit_pref_f": 1},
        "training": {"training_data": {"systems": [str(folder / "data")], "batch_size": 2},
                     "numb_steps": steps, "seed": 1, "disp_freq": 1, "save_freq": 10 * steps,
                     "disp_file": "lcurve.out"}}))
    messages = Messages(progress, r"[Bb]atch +(\d+)\b.*wall")
    logging.getLogger("deepmd.tf.train.trainer").addHandler(messages)
    os.chdir(folder)
    main(["train", "input.json", "--skip-neighbor-stat"])
    if (folder / "lcurve.out").exists():
        rows = np.atleast_2d(np.loadtxt(folder / "lcurve.out"))
        progress.losses = rows[-len(progress.times):, 1].tolist()
    return []


def make_network() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(24, 200), torch.nn.LayerNorm(200), torch.nn.GELU(),
                               torch.nn.Linear(200, 200), torch.nn.GELU(), torch.nn.Linear(200, 5))


def make_samples(count: int) -> Any:
    import torch

    features = torch.randn(count, 24, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(features, features[:, :5].argmax(1))


@training
def pytorch_ignite(folder: Path, steps: int, progress: Progress) -> list:
    import ignite.distributed as idist
    import torch
    from ignite.engine import Events, create_supervised_trainer
    from ignite.metrics import RunningAverage

    weights = []

    def train(local_rank: int) -> None:
        model = idist.auto_model(make_network())
        optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))
        loader = idist.auto_dataloader(make_samples(2 * BATCH * steps), batch_size=2 * BATCH,
                                       shuffle=True)
        trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.cross_entropy,
                                            "cpu")
        RunningAverage(output_transform=float).attach(trainer, "mean")
        trainer.add_event_handler(Events.ITERATION_COMPLETED,
                                  lambda engine: progress.step(engine.state.metrics["mean"]))
        trainer.run(loader, max_epochs=1)
        idist.barrier()
        weights.extend(model.parameters())

    with idist.Parallel(backend="horovod") as parallel:
        parallel.run(train)
    return weights


@training
def pyro_ppl(folder: Path, steps: int, progress: Progress) -> list:
    import horovod.torch as hvd
    import pyro
    import torch
    from pyro.optim import Adam, HorovodOptimizer

    hvd.init()
    pyro.set_rng_seed(1 + hvd.rank())
    data = torch.randn(2 * BATCH * steps, 6, generator=torch.Generator().manual_seed(1)) + 3

    def model(batch: torch.Tensor) -> None:
        loc = pyro.sample("loc", pyro.distributions.Normal(torch.zeros(6), 1.0).to_event(1))
        scale = pyro.sample("scale", pyro.distributions.LogNormal(torch.zeros(6), 1.0).to_event(1))
        with pyro.plate("data", len(data), subsample=batch):
            pyro.sample("observed", pyro.distributions.Normal(loc, scale).to_event(1), obs=batch)

    guide = pyro.infer.autoguide.AutoNormal(model)
    guide(data[:BATCH])
    optimizer = HorovodOptimizer(Adam({"lr": 0.01}))
    hvd.broadcast_parameters(guide.state_dict(), root_rank=0)
    svi = pyro.infer.SVI(model, guide, optimizer, pyro.infer.Trace_ELBO())
    for batch in data.reshape(steps, hvd.size(), BATCH, 6)[:, hvd.rank()]:
        progress.step(svi.step(batch))
    return list(guide.parameters())


@training
def pytorch_lightning(folder: Path, steps: int, progress: Progress) -> list:
    warnings.simplefilter("ignore")
    import_torchvision()
    import pytorch_lightning as pl
    import torch

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_network()

        def training_step(self, batch: list, _: int) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def on_train_batch_end(self, outputs: dict, *_: object) -> None:
            progress.step(outputs["loss"])

        def validation_step(self, batch: list, _: int) -> None:
            self.log("val_loss", self.training_step(batch, 0), sync_dist=True)

        def configure_optimizers(self) -> list:
            return torch.optim.AdamW(self.parameters(), 0.003)

    module = Module()
    loader = torch.utils.data.DataLoader(make_samples(4 * BATCH * steps), BATCH, shuffle=True)
    pl.seed_everything(1)
    pl.Trainer(strategy="horovod", accelerator="cpu", max_epochs=1, logger=False,
               enable_progress_bar=False, default_root_dir=folder, gradient_clip_val=0.5,
               accumulate_grad_batches=2, enable_checkpointing=False,
               val_check_interval=max(2, steps // 4), num_sanity_val_steps=0,
               limit_val_batches=1).fit(module, loader, loader)
    return list(module.parameters())


@training
def dalle_pytorch(folder: Path, steps: int, progress: Progress) -> list:
    import argparse

    import_torchvision()
    import torch
    from dalle_pytorch import DiscreteVAE, distributed_utils

    arguments = distributed_utils.wrap_arg_parser(argparse.ArgumentParser()).parse_args(
        ["--distributed_backend", "horovod"])
    backend = distributed_utils.set_backend_from_args(arguments)
    backend.initialize()
    torch.manual_seed(1)
    vae = DiscreteVAE(image_size=16, num_tokens=64, codebook_dim=32, num_layers=2, hidden_dim=32,
                      num_resnet_blocks=1)
    vae, optimizer, *_ = backend.distribute(
        args=arguments, model=vae, optimizer=torch.optim.Adam(vae.parameters(), 1e-3),
        model_parameters=vae.parameters())
    images = torch.rand(2 * BATCH * steps, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(1 + backend.get_rank())
    for batch in images.reshape(steps, 2, BATCH, 3, 16, 16)[:, backend.get_rank()]:
        loss = vae(batch, return_loss=True, temp=0.9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.step(backend.average_all(loss).item())
    backend.local_barrier()
    return list(vae.parameters())


def digest(weights: list) -> str:
    whole = hashlib.sha256()
    for weight in weights:
        whole.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return whole.hexdigest()[:12] if weights else ""


def main() -> None:
    name, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    progress = Progress()
    is_first = os.environ.get("HOROVOD_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "0"
    with tempfile.TemporaryDirectory(dir=folder) as own:
        weights = TRAININGS[name](Path(own), steps, progress)
    if is_first:
        (folder / "result.json").write_text(
            json.dumps({"weights": digest(weights), **progress.summary()}))


if __name__ == "__main__":
    main()
