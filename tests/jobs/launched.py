"""Jobs of horovodrun that need no framework, started as from a shell that has not activated the
environment.

Ranks write what they see into files, since each MPI prefixes and interleaves standard output in its
own way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from jobs import BIN, HANG_SECONDS

RANK_VARIABLES = ["HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]
SIZE_VARIABLES = ["HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]

REPORT = f"""
import json, os, sys
rank, size = (next(os.environ[name] for name in names if name in os.environ)
              for names in ({RANK_VARIABLES}, {SIZE_VARIABLES}))
seen = dict(rank=int(rank), size=int(size), prefix=sys.prefix, uid=os.getuid(),
            arguments=sys.argv[2:], environment=dict(os.environ))
with open(os.path.join(sys.argv[1], rank), "w") as report:
    json.dump(seen, report)
sys.stdout.write("out of rank " + rank + "\\n")
"""


def as_user(user: int | None) -> list[str]:
    """What to put before a command, so that this user runs it. It may read all files: Python may be
    installed where only root can."""
    if not user:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
            "--securebits=+no_setuid_fixup"]  # without it, access(2) forgets the capability


@dataclass
class Job:
    """One run of horovodrun in a folder of its own."""

    folder: Path
    user: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    code: int = 0
    output: str = ""

    def run(self, *arguments: object) -> Job:
        environ = {**os.environ, **self.environment, "HOME": str(self.folder)}
        if not self.user:
            environ["TMPDIR"] = str(self.folder)  # see jobs.py
        environ.pop("VIRTUAL_ENV", None)
        environ.pop("PYTHONUNBUFFERED", None)
        path = [entry for entry in environ["PATH"].split(os.pathsep) if Path(entry) != BIN]
        environ["PATH"] = os.pathsep.join(path)
        process = subprocess.Popen(
            [*as_user(self.user), str(BIN / "horovodrun"), *map(str, arguments)],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            self.output, _ = process.communicate(timeout=HANG_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.code = process.returncode
        return self

    def report(self, *options: object, arguments: tuple[str, ...] = ()) -> list[dict]:
        """Run the report script with `python`; what each rank saw, in rank order."""
        script = self.folder / "report.py"
        script.write_text(REPORT)
        reports = self.folder / "reports"
        reports.mkdir(exist_ok=True)
        if self.user:
            os.chown(reports, self.user, self.user)
        self.run(*options, "python", script, reports, *arguments)
        assert self.code == 0, self.output
        ranks = [json.loads(path.read_text()) for path in reports.iterdir()]
        return sorted(ranks, key=lambda rank: rank["rank"])
