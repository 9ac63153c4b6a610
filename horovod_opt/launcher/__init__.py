"""Starting jobs: the command `horovodrun`, and what Horovod's launchers do beyond upstream's."""

from __future__ import annotations

import sys


def main() -> int | None:
    """Runs upstream's command, or says what to do where the build left Horovod out; its status."""
    from horovod_opt.launcher.built import explain_absence

    absence = explain_absence("horovodrun")
    if absence:
        print(f"horovodrun: {absence}", file=sys.stderr)
        return 1
    from horovod.runner.launch import run_commandline

    return run_commandline()
