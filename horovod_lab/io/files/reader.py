"""A program that knows nothing of us: reads all files of folders, each file whole, as trainings do.

    python reader.py ROOT SEED PASSES FOLDER...

For each FOLDER of ROOT it waits for a line, reads the folder's files in a random order, as often as
PASSES says, and prints as JSON what the last time took: seconds, seconds of its CPU time, files,
bytes and their CRC-32, which depends on the contents and not on the order.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from binascii import crc32


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read(paths: list[str], count: bool) -> tuple[int, int]:
    """Their bytes, and with `count` the sum of their CRC-32."""
    total = checksum = 0
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        total += len(data)
        if count:
            checksum += crc32(data)
    return total, checksum


def main(root: str, seed: str, passes: str, *folders: str) -> None:
    draw = random.Random(int(seed))
    for folder in folders:
        if not sys.stdin.readline():
            return
        top = os.path.join(root, folder)
        paths = [os.path.join(top, name) for name in sorted(os.listdir(top))]
        _, checksum = read(paths, True) if int(passes) > 1 else (0, 0)
        draw.shuffle(paths)
        for _ in range(max(1, int(passes) - 1)):
            begin, used = time.monotonic(), cpu()
            total, _ = read(paths, False)
            seconds, used = time.monotonic() - begin, cpu() - used
        print(json.dumps({"folder": folder, "seconds": seconds, "cpu_seconds": used,
                          "files": len(paths), "bytes": total, "crc": checksum}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
