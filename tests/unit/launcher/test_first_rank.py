"""Where a program of torch.distributed meets, and which rank each of its processes is."""

from __future__ import annotations

import itertools
import socket
from types import SimpleNamespace

import psutil
import pytest

from horovod_opt.c10d.rank_variables import LAUNCHERS, NAMES, fill_in
from horovod_opt.launcher import first_rank

ADDRESSES = {"lo": ["127.0.0.1"], "eth0": ["10.0.0.7"], "ib0": ["192.168.3.7"]}


@pytest.fixture(autouse=True)
def interfaces(monkeypatch):
    entries = {name: [SimpleNamespace(family=socket.AF_INET6, address="fe80::7"),
                      *(SimpleNamespace(family=socket.AF_INET, address=address)
                        for address in addresses)] for name, addresses in ADDRESSES.items()}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: entries)


@pytest.mark.parametrize("hosts, remote, nics, expected", [
    ("localhost:4", [], None, "127.0.0.1"),
    ("h1:2,h2:2", [], ["eth0"], "127.0.0.1"),  # names of this host
    ("h1:2,h2:2", ["h1", "h2"], ["eth0"], "h1"),
    ("h2:1,h1:2", ["h2"], ["eth0"], "h2"),
    ("h1:2,h2:2", ["h2"], ["ib0"], "192.168.3.7"),
    ("h1:2,h2:2", ["h2"], ["lo", "eth0"], "10.0.0.7"),
    ("h1:2,h2:2", ["h2"], None, "10.0.0.7"),
])
def test_the_address_is_one_that_all_ranks_reach(hosts, remote, nics, expected):
    found = first_rank.environment({"A": "1"}, hosts, remote, nics)
    assert (found["A"], found["MASTER_ADDR"]) == ("1", expected)
    assert int(found["MASTER_PORT"]) in first_rank.PORTS


def test_what_the_user_has_set_stays():
    given = {"MASTER_ADDR": "there", "MASTER_PORT": "7"}
    assert first_rank.environment(given, "h1:1", [], None) == given
    found = first_rank.environment({"MASTER_PORT": "7"}, "h1:1", [], None)
    assert found == {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "7"}


def test_a_port_is_free(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        with socket.socket() as other:
            other.bind(("", 0))
            free = other.getsockname()[1]
        monkeypatch.setattr(first_rank.random, "sample", lambda ports, count: [taken, free])
        assert first_rank._port(is_here=True) == free
        assert first_rank._port(is_here=False) == taken
        monkeypatch.setattr(first_rank.random, "sample", lambda ports, count: [taken])
        with pytest.raises(OSError, match="remedy: set MASTER_PORT"):
            first_rank._port(is_here=True)


def numbered(names: tuple[str, ...], values: str) -> dict[str, str]:
    return {name: value for name, value in zip(names, values) if name}


@pytest.mark.parametrize("names", LAUNCHERS)
def test_each_launcher_tells_its_ranks(names):
    environ = {"MASTER_ADDR": "h1", **numbered(names, "5824")}
    if names[0] == "SLURM_PROCID":
        environ |= {"SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_NODEID": "1"}
    fill_in(environ)
    assert [environ[name] for name in NAMES] == ["5", "8", "2", "4"]


@pytest.mark.parametrize("inner, outer", [*itertools.combinations(LAUNCHERS, 2)])
def test_the_inner_launcher_counts(inner, outer):
    environ = {"MASTER_ADDR": "h1", **numbered(outer, "0101"), **numbered(inner, "1212")}
    fill_in(environ)
    assert [environ[name] for name in NAMES] == list("1212")


@pytest.mark.parametrize("environ", [
    {},
    {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "MASTER_ADDR": "h1"},  # an allocation, but no step
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},  # it meets otherwise
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": ""},
    {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "MASTER_ADDR": "h1", "HOROVOD_ELASTIC": "1"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "h1",
     "RANK": "3", "WORLD_SIZE": "4"},  # torchrun below mpirun
])
def test_nothing_is_filled_in_elsewhere(environ):
    before = dict(environ)
    fill_in(environ)
    assert environ == before


def test_what_agrees_is_completed():
    environ = {"MASTER_ADDR": "h1", "RANK": "1", "WORLD_SIZE": "2",
               **numbered(LAUNCHERS[1], "1212")}
    fill_in(environ)
    assert [environ[name] for name in NAMES] == list("1212")
