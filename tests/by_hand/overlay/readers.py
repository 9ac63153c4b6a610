"""What a program reads below a folder, as one line of text; each function is such a program."""

from __future__ import annotations

import glob
import hashlib
import os
import sys
import types
from pathlib import Path


def digest(*pieces: bytes) -> str:
    return hashlib.sha256(b"\0".join(pieces)).hexdigest()[:16]


def pil(root: str) -> str:
    from PIL import Image

    return digest(*(Image.open(path).convert("RGB").tobytes()
                    for path in sorted(glob.glob(f"{root}/images/*/*.jpg"))))


def cv2_imread(root: str) -> str:
    import cv2

    return digest(*(cv2.imread(path).tobytes()
                    for path in sorted(glob.glob(f"{root}/images/*/*.jpg"))))


def tf_read_file(root: str) -> str:
    import tensorflow as tf

    paths = sorted(tf.io.gfile.glob(f"{root}/images/*/*.jpg"))
    return digest(*(tf.io.read_file(path).numpy() for path in paths))


def tf_record_dataset(root: str) -> str:
    import tensorflow as tf

    return digest(*tf.data.TFRecordDataset(f"{root}/records.tfrecord").as_numpy_iterator())


def tf_list_files(root: str) -> str:
    import tensorflow as tf

    files = tf.data.Dataset.list_files(f"{root}/images/*/*.jpg", shuffle=False)
    return digest(*files.map(tf.io.read_file, num_parallel_calls=2).as_numpy_iterator())


def keras_folder(root: str) -> str:
    import keras

    data = keras.utils.image_dataset_from_directory(f"{root}/images", image_size=(8, 8),
                                                    shuffle=False, verbose=False)
    return digest(*(array.tobytes() for pair in data.as_numpy_iterator() for array in pair))


def h5py_twice(root: str) -> str:
    import h5py

    with h5py.File(f"{root}/table.h5", "r") as one, h5py.File(f"{root}/table.h5", "r") as other:
        return digest(one["x"][:].tobytes(), other["x"][::2].tobytes())


def numpy_memmap(root: str) -> str:
    import numpy as np

    return digest(np.load(f"{root}/array.npy", mmap_mode="r")[::3].tobytes(),
                  np.memmap(f"{root}/array.npy", mode="r")[-100:].tobytes())


def _without_operators() -> None:
    """Torchvision's own operators may be of another build than PyTorch; folders need none."""
    sys.modules["torchvision._meta_registrations"] = types.ModuleType("unused")


def image_folder(root: str) -> str:
    _without_operators()
    from torchvision.datasets import ImageFolder

    data = ImageFolder(f"{root}/images")
    return digest(*(image.tobytes() + bytes([label]) for image, label in data))


def image_folder_workers(root: str) -> str:
    import torch

    _without_operators()
    from torchvision.datasets import ImageFolder
    from torchvision.transforms.functional import pil_to_tensor

    loader = torch.utils.data.DataLoader(ImageFolder(f"{root}/images", pil_to_tensor), 4,
                                         num_workers=2)
    return digest(*(images.numpy().tobytes() + labels.numpy().tobytes()
                    for images, labels in loader))


def torch_load(root: str) -> str:
    import torch

    return digest(torch.load(f"{root}/tensor.pt", mmap=True, weights_only=True).numpy().tobytes())


def pandas_csv(root: str) -> str:
    import pandas

    return digest(pandas.read_csv(f"{root}/table.csv").to_numpy().tobytes())


def pyarrow_parquet(root: str) -> str:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(f"{root}/table.parquet")
    return digest(repr(table.to_pydict()).encode())


def sqlite(root: str) -> str:
    import sqlite3

    with sqlite3.connect(f"file:{root}/table.sqlite?mode=ro", uri=True) as database:
        return digest(repr(database.execute("select * from t").fetchall()).encode())


def libc_glob(root: str) -> str:
    import ctypes

    class Glob(ctypes.Structure):
        _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)),
                    ("rest", ctypes.c_char * 256)]

    found = Glob()
    status = ctypes.CDLL(None).glob(f"{root}/images/*/*.jpg".encode(), 0, None,
                                    ctypes.byref(found))
    if status:
        raise FileNotFoundError(f"glob: {status}")
    return digest(*(os.path.relpath(os.fsdecode(found.paths[i]), root).encode()
                    for i in range(found.count)))


def mmap_of_everything(root: str) -> str:
    import mmap

    pieces = []
    for path in sorted(Path(root).rglob("*")):
        if path.is_file() and path.stat().st_size:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                pieces.append(bytes(data))
    return digest(*pieces)


if __name__ == "__main__":
    print(globals()[sys.argv[1]](sys.argv[2]))
