"""The network interface of an elastic job that begins on one host."""

from __future__ import annotations

import pytest

from horovod_opt.launcher import one_host

LO, ETH, WLAN = {"lo": ["127.0.0.1"]}, {"eth0": ["10.0.0.2"]}, {"wlan0": ["192.168.1.7"]}
HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


@pytest.mark.parametrize("of_host, default, chosen", [
    ({**LO, **ETH}, "eth0", "eth0"),
    ({**LO, **WLAN, **ETH}, "wlan0", "wlan0"),
    ({**LO, **WLAN, **ETH}, None, "eth0"),
    ({**LO, **ETH}, "ppp0", "eth0"),  # it has no IPv4 address
    ({**LO, "eth0": []}, "eth0", "lo"),
    (LO, None, "lo"),
    ({"lo": ["127.0.0.1", "10.0.0.9"], "eth0": []}, None, "lo"),
])
def test_interface_to_others(of_host, default, chosen):
    assert one_host.choose(of_host, default) == chosen


def test_none_is_an_error():
    with pytest.raises(ValueError, match="--network-interfaces names one"):
        one_host.choose({"eth0": []}, "eth0")


@pytest.mark.parametrize("routes, default", [
    ("eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n", None),
    ("eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth0"),
    ("wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
     "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth0"),
    ("eth0\t00000000\t0100000A\t0003\t0\t0\t100\t000000FF\t0\t0\t0\n", None),
    ("", None),
])
def test_default_route(tmp_path, routes, default):
    (tmp_path / "route").write_text(HEAD + routes)
    assert one_host.default_interface(tmp_path / "route") == default


def test_no_table_of_routes(tmp_path):
    assert one_host.default_interface(tmp_path / "route") is None


def test_addresses_are_those_of_this_host():
    assert any("127.0.0.1" in ips for ips in one_host.addresses().values())


def test_this_host_alone(monkeypatch, capsys):
    monkeypatch.setattr(one_host, "addresses", lambda: {**LO, **ETH})
    monkeypatch.setattr(one_host, "default_interface", lambda: "eth0")
    assert one_host.interfaces(["localhost"], lambda hosts: []) == {"eth0"}
    said = capsys.readouterr().err
    assert "eth0" in said and "--network-interfaces chooses another" in said


def test_another_host_alone_waits_and_says_so(capsys):
    assert one_host.interfaces(["far"], lambda hosts: hosts) is None
    said = capsys.readouterr().err
    assert "begins on far" in said and "waits for a second host" in said
    assert "--network-interfaces names them" in said


def test_several_hosts_are_asked_as_ever(capsys):
    assert one_host.interfaces(["localhost", "far"], lambda hosts: ["far"]) is None
    assert capsys.readouterr().err == ""
