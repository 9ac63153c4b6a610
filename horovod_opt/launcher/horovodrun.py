"""The command `horovodrun`: upstream's, or what to do where the build left Horovod out."""

from __future__ import annotations

import sys

from horovod_opt import without_horovod


def main() -> int | None:
    """Runs upstream's command; its exit status."""
    missing = without_horovod.missing("horovodrun")
    if missing:
        print(f"horovodrun: {missing}", file=sys.stderr)
        return 1
    from horovod.runner.launch import run_commandline

    return run_commandline()
