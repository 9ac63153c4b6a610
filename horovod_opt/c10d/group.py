"""Makes a group's backend: ours, and gloo's below it for what ours does not do."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import ipaddress
import os
import socket
import sys
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist

from horovod_opt.c10d.store_generation import agree_on_generation
from horovod_opt.settings import load

FOLDER = Path(__file__).parent
PREFIX = "libhorovod_opt_c10d-"


@cache
def compiled() -> ModuleType:
    """The module compiled for this PyTorch.

    Raises:
        RuntimeError: there is none, with the versions that there are.
    """
    path = FOLDER / f"{PREFIX}{torch.__version__}.so"
    if not path.exists():
        built = [other.name[len(PREFIX):-len(".so")] for other in FOLDER.glob(f"{PREFIX}*.so")]
        raise RuntimeError(
            f"horovod-opt's backend was built for PyTorch {' and '.join(built) or '(none)'}, here "
            f"is {torch.__version__}; remedy: pip install --force-reinstall horovod-opt, with "
            "this PyTorch installed")
    loader = importlib.machinery.ExtensionFileLoader("_backend", str(path))
    module = importlib.util.module_from_spec(
        importlib.machinery.ModuleSpec("_backend", loader, origin=str(path)))
    loader.exec_module(module)
    return module


def make(options):
    """Collective over the group's ranks. `options`: what torch.distributed gives to those of the
    extended interface, with a store of the group's own.

    Raises:
        dist.DistStoreError: ranks have not come within the group's timeout.
    """
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    timeout = options.timeout
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    rank, size, name = options.group_rank, options.group_size, options.group_id or "0"
    generation = agree_on_generation(dist.PrefixStore("generations", options.store), rank, ranks,
                                     seconds, name)
    store = dist.PrefixStore(generation, options.store)

    def gloo() -> dist.ProcessGroupGloo:
        return _gloo(dist.PrefixStore("gloo", store), rank, size, timedelta(seconds=seconds))

    def address() -> str:
        return _address(store)

    return compiled().make(dist.PrefixStore("hvdopt", store), rank, size, seconds, name, ranks,
                           gloo, address, _most_in_memory(), _say)


def counts(group=None) -> dict[str, tuple[int, int]]:
    """Calls of each kind that this rank's group (None: the world) made so far: those that went our
    way, and those that gloo performed.

    Raises:
        TypeError: it is no group of backend hvdopt.
    """
    group = group or dist.group.WORLD
    return compiled().counts(group._get_backend(torch.device("cpu")))


def _gloo(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
    """Its connections are made as they are needed, where this PyTorch can do that: send and recv
    are calls of two ranks alone."""
    gloo = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = timeout
    lazy = {"lazy_init": True} if "lazy_init" in (gloo.create_device.__doc__ or "") else {}
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if interfaces:
        options._devices = [gloo.create_device(interface=interface, **lazy)
                            for interface in interfaces.split(",")]
    else:
        options._devices = [gloo.create_default_device(**lazy)]
    options._threads = 2 * len(options._devices)
    return gloo(store, rank, size, options)


def _address(store: dist.Store) -> str:
    """By which other hosts reach this one, numeric: that of the interface which the user names for
    gloo, else the one from which this process reaches the store's host.

    Raises:
        RuntimeError: there is none, or several may be meant.
    """
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME", "")
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if not interfaces and isinstance(store, dist.TCPStore):
        with suppress(OSError):
            found = _source_address(store.host)
            if not ipaddress.ip_address(found).is_loopback:
                return found
    try:
        return compiled().own_address(interfaces)
    except RuntimeError as problem:
        raise RuntimeError(f"{problem}; remedy: name the one that other hosts reach, "
                           "GLOO_SOCKET_IFNAME=eth0") from None


def _source_address(host: str) -> str:
    """From which this host sends to that one. Nothing is sent."""
    family, kind, protocol, _, target = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as datagrams:
        datagrams.connect(target)
        return datagrams.getsockname()[0]


def _most_in_memory() -> int:
    """Ranks of a host that share memory; 0: all.

    Raises:
        SettingsError: HOROVOD_OPT_NODE_RANKS is no such number.
    """
    return load(os.environ).node_ranks


def _say(line: str) -> None:
    print(f"horovod-opt: {line}", file=sys.stderr, flush=True)
