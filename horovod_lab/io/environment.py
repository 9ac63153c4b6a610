"""The Python that runs the ranks: that of .venv-peers, where all peers are, or else this one."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from horovod_opt.arguments import Refusal

FOLDER = Path(".venv-peers")  # where `make peers` makes it
ELSEWHERE = "/"  # python -m takes packages of the folder that it is run in before its own


@dataclass(frozen=True)
class Environment:
    """`absence` says why a distribution that it does not have is missing."""

    python: str
    version: str
    versions: dict[str, str]
    absence: str

    def explain_absence(self, needs: Iterable[str]) -> str:
        """Why something that needs these distributions cannot run; "" if it can."""
        absent = [name for name in needs if name not in self.versions]
        return f"no {', '.join(absent)}: {self.absence}" if absent else ""


def find(folder: Path = FOLDER, remedy: str = "make peers") -> Environment:
    """Raises Refusal if the one in `folder`, which `remedy` makes, cannot be used."""
    python = folder.absolute() / "bin" / "python"
    if not python.exists():
        absence = f"no {folder}; remedy: {remedy}"
        return Environment(sys.executable, platform.python_version(), _versions(), absence)
    process = subprocess.run([python, "-m", __name__], cwd=ELSEWHERE, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True)
    try:
        report = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = (process.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Refusal(f"{python} cannot be used: {reason}; remedy: {remedy}") from None
    if report["source"] != source():
        raise Refusal(f"{folder} has another horovod_opt.io than this command, so it would measure "
                      f"that one; remedy: {remedy}")
    return Environment(str(python), report["version"], report["versions"],
                       f"it is not in {folder}; remedy: {remedy}")


def source() -> str:
    """A digest of the input side's Python files."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for package in ("horovod_lab/io", "horovod_opt/io")
                       for path in (root / package).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    """By name, as it is normalized in pip's lists."""
    return {distribution.metadata["Name"].lower().replace("_", "-"): distribution.version
            for distribution in metadata.distributions() if distribution.metadata["Name"]}


if __name__ == "__main__":
    print(json.dumps({"version": platform.python_version(), "versions": _versions(),
                      "source": source()}))
