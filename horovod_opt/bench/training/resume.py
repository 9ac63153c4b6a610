"""A benchmark goes on where an earlier one with the same settings ended."""

from __future__ import annotations

import argparse
from typing import Any

from horovod_opt.bench.training.prepare import Refused
from horovod_opt.bench.training.run_job import Setup
from horovod_opt.measuring import documents


def begin(options: argparse.Namespace, setup: Setup) -> dict[str, Any]:
    """The document with what was measured before, or a new one.

    Raises:
        Refused: the folder cannot be made, or holds measurements with other settings.
        DocumentError: it holds a bench.json that cannot be read.
    """
    settings = {
        "scaling": "strong" if options.global_batch else "weak", "seconds": setup.seconds,
        "threads": setup.threads, "hosts": [list(host) for host in setup.hosts.slots]}
    path = options.output / "bench.json"
    document = documents.new("bench", ["horovod-opt"])
    document |= {"settings": settings, "measurements": []}
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--output: {options.output} cannot be made: {error.strerror}") from error
    if not path.exists():
        return document
    earlier = documents.load(path, "bench")
    now = {**settings, "versions": document["machine"]["versions"]}
    then = {**earlier["settings"], "versions": earlier["machine"]["versions"]}
    different = [name for name in now if now[name] != then.get(name)]
    if different:
        raise Refused(f"{path} was measured with other {', '.join(different)}; remedy: another "
                      "--output, or the same settings")
    return {**earlier, "command": document["command"]}
