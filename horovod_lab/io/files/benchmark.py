"""FanStore's benchmark: folders of files of four sizes, read whole by a program that opens them by
their paths, from one node or from several that share a pack."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import horovod_opt
from horovod_lab.io.files import reader
from horovod_lab.io.files.mounts import MOUNTS, make_image, mounted
from horovod_lab.io.testbeds.nodes import INTERFACE, Nodes

KIB = 1024
SIZES = {"128 KiB": 128 * KIB, "512 KiB": 512 * KIB, "2 MiB": 2048 * KIB, "8 MiB": 8192 * KIB}
PAGE, RATIO = 4096, 2.8  # compressed, about: that of the source's data
PACKS = {"plain": (), "zstd": ("--zstd",)}
FOLDER, OURS, OURS_ZSTD = "folder", "io run", "io run, zstd"
THREADS = 4  # of each node, as the source's Keras has
LIMIT = 600  # seconds that a program may take
PACKAGES = Path(horovod_opt.__file__).parents[1]
CLI = (sys.executable, "-m", "horovod_opt.cli")


def make_files(folder: Path, total: int, seed: int = 0) -> None:
    """`total` bytes of files of each size, a folder for each."""
    draw = np.random.default_rng(seed)
    random_part = int(PAGE / RATIO)
    for name, size in SIZES.items():
        (folder / name).mkdir(parents=True)
        for i in range(max(1, total // size)):
            pages = np.zeros((size // PAGE, PAGE), np.uint8)
            pages[:, :random_part] = draw.integers(0, 256, (len(pages), random_part), np.uint8)
            pages.tofile(folder / name / f"{i:05d}.bin")


def pack(folder: Path, out: Path, kind: str) -> float:
    """Returns the seconds that it took."""
    begin = time.monotonic()
    subprocess.run([*CLI, "pack", folder, out, "--part-size", "8MiB", *PACKS[kind]], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT)
    return time.monotonic() - begin


def single(folder: Path, packs: Mapping[str, Path], work: Path, rounds: int) -> Iterator[dict]:
    """What one node reads, through each file system in turn, in another order in each round."""
    at = work / "seen"
    at.mkdir()
    with ExitStack() as stack:
        programs = {FOLDER: ((), folder), OURS: (_run(packs["plain"], at / "plain"), at / "plain"),
                    OURS_ZSTD: (_run(packs["zstd"], at / "zstd"), at / "zstd")}
        usable = [mount for mount in MOUNTS if not mount.why_not()]
        if any(mount.of_image for mount in usable):
            make_image(folder, work / "image")
        for number, mount in enumerate(usable):
            where = work / f"mount{number}"
            stack.enter_context(mounted(mount, work / "image" if mount.of_image else folder, where))
            programs[mount.name] = ((), where)
        for round_number in range(rounds):
            for system in random.Random(round_number).sample(list(programs), len(programs)):
                prefix, root = programs[system]
                for row in _together([_reader(prefix, root, round_number, 1)]):
                    yield {"round": round_number, "system": system, "nodes": 1, **row}


def several(packs: Mapping[str, Path], work: Path, numbers: Sequence[int], megabits: float,
            rounds: int) -> Iterator[dict]:
    """What nodes read whose tars are each on one of them, over links of so many Mbit/s. As root."""
    for number in numbers:
        with closing(Nodes(number)) as nodes:
            for node in range(number):
                _slow_down(nodes, node, megabits)
            for round_number in range(rounds):
                for kind in random.Random(round_number).sample(list(packs), len(packs)):
                    meet = work / f"meet-{number}-{kind}-{round_number}"
                    readers = []
                    for node in range(number):
                        own = _part_of(packs[kind], node, number, work / f"{kind}-{node}-{number}")
                        at = work / f"at-{kind}-{node}"
                        run = _run(own, at, "--meet", str(meet), "--nodes", str(number))
                        readers.append(_reader((*nodes.enter(node), *run), at, round_number,
                                               THREADS))
                    for row in _together(readers):
                        yield {"round": round_number, "pack": kind, "nodes": number, **row}


def _run(pack_folder: Path, at: Path, *options: str) -> tuple[str, ...]:
    return (*CLI, "io", "run", "--pack", str(pack_folder), "--at", str(at), *options, "--")


def _reader(prefix: Sequence[str], root: Path, seed: int, threads: int) -> list[str]:
    return [*prefix, sys.executable, reader.__file__, str(root), str(seed), str(threads), *SIZES]


def _together(commands: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """A row for each size, when all have read it: the longest time, and the bytes of all."""
    variables = {**os.environ, "HOROVOD_GLOO_IFACE": INTERFACE if len(commands) > 1 else "lo",
                 "PYTHONPATH": str(PACKAGES)}  # nodes have another working folder
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables))
            for command in commands]
        stack.callback(lambda: [process.kill() for process in processes])
        for _ in SIZES:
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
            lines = [process.stdout.readline() for process in processes]
            if not all(lines):
                raise OSError(f"a program has ended: {' '.join(map(str, commands[0]))}")
            rows = [json.loads(line) for line in lines]
            yield {**rows[0], "seconds": max(row["seconds"] for row in rows),
                   "bytes": sum(row["bytes"] for row in rows),
                   "files": sum(row["files"] for row in rows)}
        for process in processes:
            process.communicate(timeout=LIMIT)


def _part_of(whole: Path, node: int, number: int, own: Path) -> Path:
    """Tar k is of node k mod `number`, as horovod-opt io stage deals them; here by links."""
    if not own.exists():
        own.mkdir()
        (own / "pack.hoi").symlink_to(whole / "pack.hoi")
        for tar in sorted(whole.glob("*.tar"))[node::number]:
            (own / tar.name).symlink_to(tar)
    return own


def _slow_down(nodes: Nodes, node: int, megabits: float) -> None:
    """What the node sends: a single node sends nothing."""
    if nodes.has_network:
        limit = f"rate {megabits:g}mbit burst 64kb latency 50ms"
        subprocess.run([*nodes.enter(node), "tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf",
                        *limit.split()], check=True)
