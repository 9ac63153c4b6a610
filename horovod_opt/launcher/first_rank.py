"""Where programs of torch.distributed meet in a job of horovodrun: at its first rank.

What `init_method="env://"`, the default of init_process_group(), reads of MASTER_ADDR and
MASTER_PORT. The numbers of the ranks are filled in by horovod_opt.c10d, in each of them.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping

import psutil

# Below the ports that Linux gives to outgoing connections.
PORTS = range(20_000, 30_000)
TRIES = 100


def environment(env: Mapping[str, str], hosts: str, remote: Iterable[str],
                nics: Iterable[str] | None) -> dict[str, str]:
    """`env` with MASTER_ADDR and MASTER_PORT, where it has none. `hosts`: as h1:2,h2:2; `remote`:
    of these, those that are not this one; `nics`: interfaces that all hosts have in common."""
    first = hosts.split(",")[0].split(":")[0].strip()
    remote = list(remote)
    address = first if first in remote else _own_address(nics) if remote else "127.0.0.1"
    return {"MASTER_ADDR": address, "MASTER_PORT": str(_port(first not in remote)), **env}


def _own_address(nics: Iterable[str] | None) -> str:
    """By which other hosts reach this one."""
    addresses = psutil.net_if_addrs()
    for name in sorted(nics or addresses):
        for entry in addresses.get(name, ()):
            if entry.family == socket.AF_INET and not entry.address.startswith("127."):
                return entry.address
    return socket.gethostname()


def _port(is_here: bool) -> int:
    """One that was free just now, if the first rank is on this host; any elsewhere."""
    for port in random.sample(PORTS, TRIES):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                if is_here:
                    listener.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port among {TRIES} from {PORTS.start} to {PORTS.stop - 1}; remedy: "
                  "set MASTER_PORT")
