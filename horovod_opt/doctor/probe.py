"""What one framework's native library was built with, asked without initialising Horovod.

    python -m horovod_opt.doctor.probe FRAMEWORK LIBRARY

prints one line of JSON, in a process of its own: loading the library needs the framework
imported first, and a library that does not fit the framework can crash.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import sys

from horovod_opt.native import prototypes

# As in `horovodrun --check-build`.
PARTS = {
    "MPI": "horovod_mpi_built",
    "Gloo": "horovod_gloo_built",
    "NCCL": "horovod_nccl_built",
    "CUDA": "horovod_cuda_built",
    "ROCm": "horovod_rocm_built",
}
# The longest text that MPI_Get_library_version may write, in any MPI.
_MPI_TEXT = 8192


def probe(framework: str, library: str) -> dict:
    """Facts about `library`, with `framework` imported. Raises what the import raises."""
    version = importlib.import_module(framework).__version__
    lib = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    return {
        "version": str(version),
        "parts": {part: _flag(lib, function) for part, function in PARTS.items()},
        "abi": prototypes.built_hash(lib) or "",
        **_mpi(),
    }


def _flag(lib: ctypes.CDLL, function: str) -> bool:
    call = getattr(lib, function)
    # A C++ bool leaves the upper bits of the register undefined; NCCL's is an int, the version.
    call.restype = ctypes.c_int if "nccl" in function else ctypes.c_bool
    return bool(call())


def _mpi() -> dict:
    """The MPI library that came with the native library: its file and its own description."""
    with open("/proc/self/maps") as maps:
        match = re.search(r"(/\S*/libmpi(?:ch)?\.so\S*)", maps.read())
    if not match:
        return {"libmpi": "", "mpi_version": ""}
    text, length = ctypes.create_string_buffer(_MPI_TEXT), ctypes.c_int()
    # One of the few functions that MPI allows before MPI_Init.
    ctypes.CDLL(match.group(1)).MPI_Get_library_version(text, ctypes.byref(length))
    return {"libmpi": match.group(1), "mpi_version": text.value.decode(errors="replace")}


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
