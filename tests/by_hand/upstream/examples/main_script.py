"""python main_script.py keras|torchvision SCRIPT [ARGUMENT ...]: runs the script as it is, in a
process that was prepared for a machine without a network or a GPU."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import example_data


def keras() -> None:
    """Digits where Keras would download MNIST."""
    import keras
    import tensorflow as tf

    def load_data(path: str = "mnist.npz"):
        return example_data.digits()

    for module in (keras, tf.keras):
        module.datasets.mnist.load_data = load_data


def torchvision() -> None:
    """Its wheels are for PyTorch with CUDA: beside another one none of its operators is there, and
    its import ends where it describes two of them. The scripts need models and data sets alone."""
    import torch

    if torch.version.cuda is None:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}",
                                 "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


PREPARED = {"keras": keras, "torchvision": torchvision}

if __name__ == "__main__":
    PREPARED[sys.argv[1]]()
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
