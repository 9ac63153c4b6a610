"""A folder, and its pack in the folder's place."""

from __future__ import annotations

import os

import data_sets
import pytest
from overlaid import Job

from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options

FILES = {**{f"{name}/{i}.bin": bytes([i]) * size for name in "ab" for i, size in enumerate(
    (0, 1, 4095, 4096, 4097, 100_000))}, "a/in/x y.txt": b"deep " * 99, "README": b"read me\n",
    ".hidden": b"h", "a/\u00e4.txt": b"umlaut"}


@pytest.fixture(params=[None])
def job(request, tmp_path, unsynced) -> Job:
    """With indirect parametrization: zstd's level."""
    source = data_sets.files(tmp_path / "source", FILES)
    (source / "empty").mkdir()
    for i, path in enumerate(sorted(source.rglob("*.bin"))):
        os.utime(path, ns=(10**18 + i, 10**18 + i * 1_000_000_007))
        path.chmod(0o644 if i % 2 else 0o755)
    pack(list_source([str(source)], None, 0), tmp_path / "pack",
         Options(128 << 10, 0, request.param))
    (tmp_path / "seen").mkdir()
    return Job(source, tmp_path / "pack", tmp_path / "seen" / "set", tmp_path / "counters.json")
