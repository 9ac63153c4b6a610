"""HOROVOD_OPT_AS_GLOO=1: groups of gloo perform their calls in main memory as hvdopt does.

For programs that name gloo themselves, and for those that name nothing. PyTorch has no place where
a backend can be exchanged, so this stands before its private function that makes a group.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys

import torch.distributed.distributed_c10d as c10d
from torch.distributed import Backend

from horovod_opt.c10d import AS_GLOO, NAME
from horovod_opt.settings import load

FUNCTION = "_new_process_group_helper"
# What it takes begins so in PyTorch 2.13, with which this was tried.
FIRST = ("group_size", "group_rank", "global_ranks_in_group", "backend", "store")


def replace_gloo() -> None:
    """From now on, whenever a group is made while the setting is on. Says on stderr if this PyTorch
    has no such function."""
    plain = getattr(c10d, FUNCTION, None)
    if plain is None:
        print(f"horovod-opt: {_refusal('is not there')}", file=sys.stderr, flush=True)
        return
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def make(*arguments, **named):
        if not load(os.environ).as_gloo:
            return plain(*arguments, **named)
        if tuple(signature.parameters)[:len(FIRST)] != FIRST or not hasattr(c10d._world, "pg_map"):
            raise RuntimeError(_refusal(f"takes {signature}"))
        bound = signature.bind(*arguments, **named)
        given = bound.arguments["backend"]
        ours = in_place_of(given)
        if ours == given:
            return plain(*arguments, **named)
        bound.arguments["backend"] = Backend(ours)
        group, store = plain(*bound.args, **bound.kwargs)
        if group in c10d._world.pg_map:  # get_backend() and groups made after this one say "gloo"
            c10d._world.pg_map[group] = (given, c10d._world.pg_map[group][1])
        return group, store

    setattr(c10d, FUNCTION, make)


def in_place_of(backend: str) -> str:
    """The backends of a group for which `backend` was asked, hvdopt for main memory in the place of
    gloo: "gloo" is "hvdopt", or "cpu:hvdopt,cuda:gloo" beside GPUs."""
    devices = dict(c10d.BackendConfig(Backend(backend)).get_device_backend_map())
    if devices.get("cpu") != Backend.GLOO:
        return backend
    devices["cpu"] = NAME
    is_explicit = ":" in backend
    kept = {device: name for device, name in devices.items()
            if device == "cpu" or is_explicit or _is_there(device)}
    return ",".join(f"{device}:{name}" for device, name in kept.items()) if len(kept) > 1 else NAME


def _is_there(device: str) -> bool:
    import torch

    module = getattr(torch, device, None)
    return bool(module and hasattr(module, "is_available") and module.is_available())


def _refusal(problem: str) -> str:
    import torch

    return (f"{AS_GLOO}=1 does not know PyTorch {torch.__version__}: its {FUNCTION} {problem}; "
            f"remedy: unset it, and init_process_group(\"{NAME}\")")
