"""What the experiment on files makes of its document, and a small run of it."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("matplotlib")

import fanstore

from horovod_lab.io.files import benchmark
from horovod_lab.io.files.benchmark import FOLDER, OURS, OURS_ZSTD, SIZES


@pytest.fixture(autouse=True)
def _of_this_checkout(library):
    """What `horovod-opt pack` and `io run` load."""


def rows(key: str, seconds: dict[str, float], nodes: int = 1) -> list[dict]:
    """Of two rounds; in the second all take twice as long."""
    return [{"round": number, key: name, "nodes": nodes, "folder": size, "files": 8 * nodes,
             "bytes": 8_000_000 * nodes, "seconds": (1 + number) * value, "crc": 0}
            for number in range(2) for name, value in seconds.items() for size in SIZES]


DOCUMENT = {
    "kind": "fanstore", "mib": 8, "rounds": 2, "link": 64, "seconds": 1.0,
    "packs": [{"round": number, "pack": kind, "seconds": seconds, "bytes": 34 << 20}
              for number in range(2) for kind, seconds in (("plain", 2.0), ("zstd", 5.0))],
    "single": rows("system", {OURS: 2.0, OURS_ZSTD: 4.0, FOLDER: 1.0, "FUSE passthrough": 5.0,
                              "squashfuse_ll": 3.0}),
    "several": [*rows("pack", {"plain": 1.0, "zstd": 0.5}, 2),
                *rows("pack", {"plain": 1.5, "zstd": 0.75}, 4)]}


def test_what_is_beside_the_source():
    besides = fanstore.compare([DOCUMENT])
    found = {(beside.reported.label, beside.at): beside.reported.show(beside.here)
             for beside in besides}
    assert len(found) == len(besides) == 11
    for (label, at), value in {
            ("files/s over those of the file system below, %", "128 KiB, 1 node"): "50",
            ("files/s over those by FUSE, x", "8 MiB, 1 node"): "2.5",
            # 6 of 8 MB for each node, at 8 MB/s: 0.75 s of 1.5 s, of 3 s.
            ("bandwidth over what more nodes allow, %", "8 MiB, 4 nodes"): "38",
            ("files/s with compression over those without, one node, %",
             "128 KiB, 1 node"): "50",
            ("files/s with compression over those without, nodes, x", "8 MiB, 4 nodes"): "2",
    }.items():
        assert found[label, f"files of {at}"] == value
    assert found["time to pack with compression over that without, x", "zstd, level 3"] == "2.5"


def test_targets_are_judged():
    lines = fanstore.targets(DOCUMENT)
    assert [line.rpartition(" ")[0 if "not met" in line else 2] for line in lines[:3]] == [
        "F1 bytes of tars over data, which io stage reads once: 1.06 (1.06 to 1.06); "
        "target 1.02: not",
        f"F3 {OURS} over squashfuse_ll, 128 KiB: 1.50 (1.50 to 1.50); target 2: not", "met"]
    assert all(line.endswith("not met") == line.startswith("F5") for line in lines[3:-1])
    assert len(lines) == 12 and "F2" in lines[-1] and "F4" in lines[-1]


def test_tables():
    shown = fanstore.section(DOCUMENT)
    assert [row[0] for row in shown.grids[0].rows] == [
        OURS, OURS_ZSTD, "FUSE passthrough", "folder", "squashfuse_ll"]
    assert shown.grids[0].rows[0][1] == "3.00 (2.00 to 4.00)"
    assert shown.grids[1].rows[-1] == ("4 nodes, zstd", *["32.0 (21.3 to 42.7)"] * 4)


def test_data_compresses_as_the_sources_does(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    benchmark.make_files(tmp_path / "files", 1 << 20)
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*.bin")))
    assert len(data) == (1 << 20) * 2 + (2 << 20) + (8 << 20)
    assert len(data) / len(zstandard.compress(data)) == pytest.approx(2.8, rel=0.1)


@pytest.mark.parametrize("nodes", [[], [2]], ids=["one-node", "two-nodes"])
def test_a_small_run(tmp_path, nodes, capsys):
    """All file systems that are here give the same bytes."""
    if nodes and os.geteuid() != 0:
        pytest.skip("needs root, for network namespaces")
    arguments = ["--mib", "1", "--rounds", "1", "--link", "1000", "--output", str(tmp_path),
                 "--targets", "--nodes", *map(str, nodes)]
    assert fanstore.STUDY.main(arguments) == 0
    document = json.loads((tmp_path / "fanstore" / "fanstore.json").read_text())
    systems = {row["system"] for row in document["single"]}
    assert systems >= {FOLDER, OURS, OURS_ZSTD}
    assert len(document["single"]) == len(SIZES) * len(systems)
    assert len(document["several"]) == len(nodes) * 2 * len(SIZES)
    assert all(row["bytes"] == 2 * (8 << 20) for row in document["several"]
               if row["folder"] == "8 MiB")
    assert "F1 bytes of tars" in capsys.readouterr().out
