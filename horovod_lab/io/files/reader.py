"""A program that knows nothing of us: reads all files of folders, each file whole, as trainings do.

    python reader.py ROOT SEED THREADS FOLDER...

For each FOLDER of ROOT it waits for a line, reads the folder's files, and reads them once more in a
random order, with so many threads. It prints as JSON what the second time took in seconds, files,
bytes, and the sum of the files' CRC-32.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from binascii import crc32
from multiprocessing.pool import ThreadPool


def read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def main(root: str, seed: str, threads: str, *folders: str) -> None:
    draw = random.Random(int(seed))
    read_all = ThreadPool(int(threads)).imap_unordered if int(threads) > 1 else map
    for folder in folders:
        if not sys.stdin.readline():
            return
        top = os.path.join(root, folder)
        paths = [os.path.join(top, name) for name in sorted(os.listdir(top))]
        checksum = sum(map(crc32, read_all(read, paths)))
        draw.shuffle(paths)
        begin = time.monotonic()
        total = sum(map(len, read_all(read, paths)))
        print(json.dumps({"folder": folder, "seconds": time.monotonic() - begin,
                          "files": len(paths), "bytes": total, "crc": checksum}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
