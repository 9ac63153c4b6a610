"""Files of the kinds that readers.py reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def make(source: Path) -> None:
    """All of them."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (source / "images" / name).mkdir(parents=True)
        for i in range(12):
            Image.fromarray(draw.integers(0, 256, (48, 64, 3), np.uint8)).save(
                source / "images" / name / f"{i}.jpg")
    np.save(source / "array.npy", draw.random(100_000))
    (source / "table.csv").write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(1000)))
    for one in (make_hdf5, make_records, make_tensor, make_parquet, make_sqlite):
        where_possible(one, source)


def where_possible(one: Callable[[Path], None], source: Path) -> None:
    """What lacks its library is not made, and its row says so."""
    try:
        one(source)
    except ImportError as error:
        print(f"{one.__name__}: {error}", file=sys.stderr)


def make_hdf5(source: Path) -> None:
    import h5py
    import numpy as np

    with h5py.File(source / "table.h5", "w") as file:
        file["x"] = np.arange(50_000).reshape(-1, 10)


def make_records(source: Path) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(source / "records.tfrecord")) as writer:
        for i in range(100):
            writer.write(bytes([i]) * (10 * i))


def make_tensor(source: Path) -> None:
    import torch

    torch.save(torch.arange(10_000), source / "tensor.pt")


def make_parquet(source: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": range(1000)}), source / "table.parquet")


def make_sqlite(source: Path) -> None:
    import sqlite3

    with sqlite3.connect(source / "table.sqlite") as database:
        database.execute("create table t (a, b)")
        database.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(1000)])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
