"""The address of this node."""

from __future__ import annotations

import os

from horovod_opt.io import native
from horovod_opt.io.errors import InputError

# What launchers and users say of interfaces, as between nodes in mode topo.
INTERFACES = ("HOROVOD_GLOO_IFACE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
              "OMPI_MCA_btl_tcp_if_include")


def own_address(what: str) -> str:
    """By which other nodes reach this one, which `what` needs. Raises InputError if there is none,
    or several may be meant."""
    interfaces = next(filter(None, map(_named, INTERFACES)), "")
    address = native.library().hio_own_address(interfaces.encode())
    if address is None:
        raise InputError(f"{what} needs an address by which other nodes reach this one: "
                         f"{native.error()}; remedy: name the interface, {INTERFACES[0]}=eth0")
    return address.decode()


def _named(setting: str) -> str:
    """NCCL also takes ^eth0 (all but) and =eth0 (exactly); Open MPI also networks."""
    names = os.environ.get(setting, "")
    return "" if names.startswith("^") or "/" in names else names.lstrip("=")
