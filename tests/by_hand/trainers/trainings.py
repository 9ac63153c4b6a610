"""One rank of a training, as users write it: NAME FOLDER STEPS, started by torchrun.

Goes on from the checkpoint in FOLDER, if there is one, until STEPS optimizer steps are done; saves
one after half of STEPS. The last line of rank 0 is JSON: its weights' hash, and calls by way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUMULATED, BATCH, CLIP = 2, 4, 0.5
FEATURES, CLASSES, SAMPLES = 24, 5, 4096
TRAININGS: dict[str, Callable[[Path, int], nn.Module]] = {}


def training(function: Callable[[Path, int], nn.Module]) -> Callable[[Path, int], nn.Module]:
    TRAININGS[function.__name__] = function
    return function


class Samples(Dataset):
    """Features and their class, the same for a number always."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        features = torch.randn(FEATURES, generator=torch.Generator().manual_seed(number))
        return features, int(features[:CLASSES].argmax())


class Tokens(Samples):
    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(50, (16,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": tokens, "labels": tokens}


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 300), nn.LayerNorm(300), nn.GELU(),
                         nn.Linear(300, 300), nn.GELU(), nn.Linear(300, CLASSES))


@training
def lightning(folder: Path, steps: int) -> nn.Module:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = make_model()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 0.01)

    module = Module()
    checkpoints = ModelCheckpoint(folder, "half", every_n_train_steps=max(1, steps // 2),
                                  save_top_k=1, save_on_train_epoch_end=False)
    trainer = pl.Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp",
        precision="bf16-mixed", accumulate_grad_batches=ACCUMULATED, gradient_clip_val=CLIP,
        max_steps=steps, callbacks=[checkpoints], logger=False, enable_progress_bar=False,
        enable_model_summary=False)
    half = folder / "half.ckpt"
    trainer.fit(module, DataLoader(Samples(), BATCH), ckpt_path=half if half.exists() else None)
    return module.model


@training
def accelerate(folder: Path, steps: int) -> nn.Module:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision="bf16",
                              gradient_accumulation_steps=ACCUMULATED)
    plain = make_model()
    model, optimizer, loader = accelerator.prepare(
        plain, torch.optim.AdamW(plain.parameters(), 0.01), DataLoader(Samples(), BATCH))
    done, half = 0, folder / "half"
    if half.exists():
        accelerator.load_state(half)
        done = json.loads((half / "done.json").read_text())
    for features, classes in accelerator.skip_first_batches(loader, done * ACCUMULATED):
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(features), classes))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            done += 1
            if done == steps // 2:
                accelerator.save_state(half)
                (half / "done.json").write_text(json.dumps(done))
        if done == steps:
            break
    accelerator.wait_for_everyone()
    assert int(accelerator.gather(torch.ones(1)).sum()) == accelerator.num_processes
    return accelerator.unwrap_model(model)


@training
def transformers(folder: Path, steps: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=64, n_layer=2,
                                       n_head=2, bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=BATCH, use_cpu=True, bf16=True,
        gradient_accumulation_steps=ACCUMULATED, max_grad_norm=CLIP, save_steps=max(1, steps // 2),
        report_to=[], disable_tqdm=True, seed=1)
    half = folder / f"checkpoint-{steps // 2}"
    Trainer(model, arguments, train_dataset=Tokens()).train(
        resume_from_checkpoint=str(half) if half.exists() else None)
    return model


def counted() -> dict[str, tuple[int, int]]:
    """Of the world; nothing where that is plain gloo's."""
    from horovod_opt.c10d.group import counts

    with contextlib.suppress(TypeError):
        return {kind: both for kind, both in counts().items() if any(both)}
    return {}


def main() -> None:
    name, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random.seed(1)
    model = TRAININGS[name](folder, steps)
    weights = torch.cat([value.detach().flatten() for value in model.parameters()])
    everywhere = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, weights)
    assert all(torch.equal(one, weights) for one in everywhere), "ranks' weights differ"
    if dist.get_rank() == 0:
        print(json.dumps({"weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
                          "finite": bool(weights.isfinite().all()), "name": dist.get_backend(),
                          "config": dist.get_backend_config(), "calls": counted()}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
