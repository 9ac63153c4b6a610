"""The command: kills, looks at what is left, and says what was lost."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Optional

from saving import FAULTS, content, save_until_killed

import horovod_opt.io as hio
from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.tier import Tier

LONGEST = 0.5  # s until a kill
FRESH = 25  # kills after which folders begin anew


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the counts are written")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    counts: Counter = Counter()
    failures, before = [], 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory) as top:
        for kill in range(options.kills):
            root = Path(top)
            if kill % FRESH == 0:
                shutil.rmtree(root / "job", ignore_errors=True)
                (root / "job").mkdir()
            folders = {"fast": root / "job" / "fast", "slow": root / "job" / "slow"}
            fault = chance.choice(FAULTS)
            wait = chance.uniform(0.005, LONGEST)
            _kill(folders, root / "job" / "record", fault, chance.randrange(1 << 30), wait)
            counts[fault or "no fault"] += 1
            wrong, saved, restored = _look(folders, root / "job" / "record")
            before = 0 if kill % FRESH == 0 else before
            counts["versions whose save had returned"] += saved - before
            before = saved
            counts["restored"] += restored is not None
            if wrong:
                failures.append(f"kill {kill}, {fault}: {wrong}")
                print(failures[-1], flush=True)
            if sys.stderr.isatty():
                print(f"\r{kill + 1} of {options.kills}", end="", file=sys.stderr)
    result = {"kills": options.kills, "seed": options.seed, "lost": len(failures),
              "counts": dict(counts), "failures": failures,
              "seconds": round(time.monotonic() - begin)}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(bool(failures))


def _kill(folders: dict[str, Path], record: Path, fault: Optional[str], seed: int,
          wait: float) -> None:
    child = os.fork()
    if not child:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 2)
            save_until_killed(folders, record, fault, seed)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
        os._exit(1)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _look(folders: dict[str, Path], record: Path) -> tuple[str, int, Optional[int]]:
    """What is wrong, how many versions are recorded, and which is restored."""
    lines = record.read_text().split() if record.exists() else []
    promised = int(lines[-1]) if lines else 0
    for name, folder in folders.items():
        if not folder.exists():
            continue
        tier = Tier(folder, name)
        for step in tier.steps():
            for rank in tier.ranks(step):
                try:
                    manifests.check(tier.path(step, rank), tier.manifest(step, rank))
                except hio.DataError as error:
                    return f"B1: {error}", len(lines), None
    buffer = hio.BurstBuffer(folders["fast"], folders["slow"])
    try:
        found = buffer.restore()
        if found is None:
            return (f"B2: {promised} is lost, there is nothing" if promised else "", len(lines),
                    None)
        step = int(found.parent.name)
        if step < promised:
            return f"B2: {promised} is lost, there is {step}", len(lines), step
        if (found / "state").read_bytes() != content(step):
            return f"B4: {step} has other bytes", len(lines), step
        return "", len(lines), step
    finally:
        buffer.close(drain=False)
