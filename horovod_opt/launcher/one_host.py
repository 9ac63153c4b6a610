"""The network interface of an elastic job that begins on one host.

Upstream finds the interfaces that hosts have in common by letting each reach the next, and so waits
for two. One host alone decides by its routes: hosts that come later reach it by the interface
through which it reaches others.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

LOOPBACK = "127."


def interfaces(hosts: list[str],
               remote_among: Callable[[list[str]], list[str]]) -> set[str] | None:
    """Those that the job is to use if its first `hosts` are this one alone, else None; what that
    means is said on stderr. `remote_among` leaves out the names of this host."""
    if len(hosts) != 1:
        return None
    if remote_among(hosts):
        _say(f"the job begins on {hosts[0]}, which is not this host, and waits for a second host, "
             "to find out which network interfaces hosts have in common; --network-interfaces "
             "names them, and then it begins at once")
        return None
    chosen = choose(addresses(), default_interface())
    _say(f"the job begins on this host alone, with the network interface {chosen}, through which "
         "hosts that come later reach it; --network-interfaces chooses another")
    return {chosen}


def choose(of_host: dict[str, list[str]], default: str | None) -> str:
    """From IPv4 addresses by interface: that of the default route, else the first that is not the
    loopback, else that."""
    outward = [name for name, ips in of_host.items()
               if any(not ip.startswith(LOOPBACK) for ip in ips)]
    if default in outward:
        return default
    if outward:
        return sorted(outward)[0]
    for name, ips in of_host.items():
        if ips:
            return name
    raise ValueError("this host has no network interface with an IPv4 address: "
                     "--network-interfaces names one")


def addresses() -> dict[str, list[str]]:
    """IPv4 addresses of the interfaces that are up."""
    states = psutil.net_if_stats()
    return {name: [address.address for address in of_interface if address.family == socket.AF_INET]
            for name, of_interface in psutil.net_if_addrs().items()
            if name in states and states[name].isup}


def default_interface(routes: Path = Path("/proc/net/route")) -> str | None:
    """Through which this host reaches what it knows no route for; the one of least metric."""
    try:
        lines = [line.split() for line in routes.read_text().splitlines()[1:]]
    except OSError:
        return None
    default = [(int(line[6]), line[0]) for line in lines
               if len(line) > 7 and line[1] == line[7] == "00000000"]
    return min(default)[1] if default else None


def _say(text: str) -> None:
    print(f"horovodrun: {text}", file=sys.stderr, flush=True)
