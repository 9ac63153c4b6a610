"""The folder that a machine without a package index needs: Horovod's source archive, wheels, and a
manifest that says for which Python and CUDA they are. Only the standard library is used here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "manifest.json"
LIMIT = 64 << 20  # bytes
# What horovod-opt needs to be built and to run. What these need comes with them.
NEEDED = ("cffi", "cloudpickle", "lmdb", "numpy", "packaging", "psutil",
          "pyyaml", "rich", "setuptools", "cmake", "ninja", "pip")
# What the other machine has: how a name of a file must not begin.
NOT_HERE = ("torch-", "tensorflow", "jax", "mxnet", "nvidia_", "triton-")


class Unusable(Exception):
    """The folder cannot be made or used. The message says why and what to do."""


@dataclass(frozen=True)
class Manifest:
    python: str  # as in "3.12"
    cuda: int    # the major version
    files: dict[str, str]  # name and SHA-256

    def archive(self, folder: Path) -> Path:
        (name,) = [name for name in self.files if name.endswith(".tar.gz")]
        return folder / name

    def wheels(self, folder: Path) -> list[Path]:
        return [folder / name for name in sorted(self.files) if name.endswith(".whl")]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(folder: Path, python: str, cuda: int) -> Manifest:
    """Writes the manifest of what is in `folder`. Raises Unusable if that cannot be carried."""
    paths = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    wrong = [path.name for path in paths if path.name.lower().startswith(NOT_HERE)]
    if wrong:
        raise Unusable(f"{folder} has {wrong[0]}: the other machine has frameworks and NVIDIA's "
                       "packages of its own; remove it")
    size = sum(path.stat().st_size for path in paths)
    if size > LIMIT:
        largest = sorted(paths, key=lambda path: -path.stat().st_size)[:3]
        raise Unusable(
            f"{folder} has {size / 2**20:.1f} MiB, more than {LIMIT >> 20}; the largest files are "
            + ", ".join(f"{path.name} ({path.stat().st_size / 2**20:.1f})" for path in largest)
            + ": choose an older version of one, in the file that --constraint names")
    manifest = Manifest(python, cuda, {path.name: _sha256(path) for path in paths})
    (folder / MANIFEST).write_text(json.dumps(vars(manifest), indent=2) + "\n")
    return manifest


def open_sealed(folder: Path) -> Manifest:
    """Raises Unusable if `folder` is not as seal() left it."""
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, TypeError, ValueError):
        raise Unusable(f"{folder} has no {MANIFEST}: make the folder with "
                       "tests/by_hand/gpu/collect, on a machine with a package index") from None
    for name, digest in manifest.files.items():
        path = folder / name
        if not path.is_file() or _sha256(path) != digest:
            raise Unusable(f"{path} is missing or damaged: copy the folder again")
    return manifest
