"""PyTorch's ways: torch.save, Distributed Checkpoint (DCP), Lightning."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from horovod_lab.io.savers import WEIGHTS
from horovod_lab.io.savers.job import weights

Mark = Callable[[int], None]


def state_of(step: int) -> dict[str, Any]:
    return {"weight": torch.from_numpy(weights(step)), "step": step}


class OneName:
    def save(self, folder: Path, mark: Mark) -> None:
        for step in (1, 2):
            torch.save(state_of(step), folder / "model.pt")
            mark(step)

    def load(self, folder: Path) -> Optional[Any]:
        return torch.load(folder / "model.pt")["weight"]


class KeepOne:
    """A name for each version; the older one is removed when the newer is saved."""

    def save(self, folder: Path, mark: Mark) -> None:
        for step in (1, 2):
            torch.save(state_of(step), folder / f"model-{step}.pt")
            (folder / f"model-{step - 1}.pt").unlink(missing_ok=True)
            mark(step)

    def load(self, folder: Path) -> Optional[Any]:
        newest = max(folder.glob("model-*.pt"), default=None)
        return None if newest is None else torch.load(newest)["weight"]


class Distributed:
    def save(self, folder: Path, mark: Mark) -> None:
        for step in (1, 2):
            dcp.save(state_of(step), checkpoint_id=folder / "checkpoint", no_dist=True)
            mark(step)

    def load(self, folder: Path) -> Optional[Any]:
        return self.load_from(folder / "checkpoint")

    @staticmethod
    def load_from(path: Path) -> Optional[Any]:
        if not path.exists():
            return None
        state = {"weight": torch.zeros(WEIGHTS), "step": 0}
        dcp.load(state, checkpoint_id=path, no_dist=True)
        return state["weight"]


class DistributedKeepOne(Distributed):
    def save(self, folder: Path, mark: Mark) -> None:
        for step in (1, 2):
            dcp.save(state_of(step), checkpoint_id=folder / f"step-{step}", no_dist=True)
            shutil.rmtree(folder / f"step-{step - 1}", ignore_errors=True)
            mark(step)

    def load(self, folder: Path) -> Optional[Any]:
        newest = max(folder.glob("step-*"), default=None)
        return newest and self.load_from(newest)


class Asynchronous(Distributed):
    def save(self, folder: Path, mark: Mark) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        for step in (1, 2):
            dcp.async_save(state_of(step), checkpoint_id=folder / "checkpoint").result()
            mark(step)


class Lightning:
    def save(self, folder: Path, mark: Mark) -> None:
        import lightning
        from lightning.pytorch.callbacks import ModelCheckpoint

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(WEIGHTS))
                self.automatic_optimization = False

            def training_step(self, batch, index):
                if index:
                    mark(index)
                self.optimizers().step()
                with torch.no_grad():
                    self.weight.copy_(state_of(index + 1)["weight"])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.0)

        keeping = ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_top_k=1,
                                  save_on_train_epoch_end=False)
        trainer = lightning.Trainer(
            max_steps=2, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[keeping], default_root_dir="/tmp")
        trainer.fit(Module(), torch.utils.data.DataLoader(range(2)))
        mark(2)

    def load(self, folder: Path) -> Optional[Any]:
        newest = max(folder.glob("*.ckpt"), key=lambda path: path.stem, default=None)
        if newest is None:
            return None
        return torch.load(newest, weights_only=False)["state_dict"]["weight"]
