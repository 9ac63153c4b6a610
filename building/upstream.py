"""Obtains the pinned source distribution of Horovod.

It comes from the file that HOROVOD_OPT_UPSTREAM names or from the package index as pip is
configured, is kept in the user's cache, and is used only if its SHA-256 is the pinned one.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from building import BuildError

PIN_FILE = Path(__file__).with_name("upstream.txt")
FILE_SETTING = "HOROVOD_OPT_UPSTREAM"


@dataclass(frozen=True)
class Pin:
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"horovod-{self.version}.tar.gz"


def read_pin(path: Path = PIN_FILE) -> Pin:
    pin = re.compile(r"^horovod==(\S+) --hash=sha256:([0-9a-f]{64})$", re.MULTILINE)
    match = pin.search(path.read_text())
    if match is None:
        raise BuildError(f"{path}: no line 'horovod==VERSION --hash=sha256:DIGEST'")
    return Pin(*match.groups())


def cache_dir(environ=os.environ) -> Path:
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "horovod-opt"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def obtain(environ=os.environ, pin: Pin = None) -> Path:
    """Path of the verified source distribution.

    Raises BuildError if the named file is missing, if a digest differs from the pinned one,
    if the package index cannot be reached and nothing is cached, or if nothing can be cached.
    """
    pin = pin or read_pin()
    path = environ.get(FILE_SETTING)
    if path:
        return _verified_file(Path(path).expanduser().absolute(), pin)
    archive = cache_dir(environ) / pin.file_name
    if not (archive.is_file() and sha256(archive) == pin.sha256):
        _download(archive, pin, environ)
    return archive


def _verified_file(path: Path, pin: Pin) -> Path:
    if not path.is_file():
        raise BuildError(f"{FILE_SETTING}={path}: no such file; it must be Horovod "
                         f"{pin.version}'s source distribution ({pin.file_name})")
    digest = sha256(path)
    if digest != pin.sha256:
        raise BuildError(f"{FILE_SETTING}={path}: SHA-256 is {digest}, but Horovod {pin.version}'s "
                         f"source distribution has {pin.sha256}; get {pin.file_name} again")
    return path


def _download(target: Path, pin: Pin, environ) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=target.parent)
    except OSError as error:
        raise BuildError(f"cannot write the cache, {target.parent}: {error.strerror}; let "
                         "XDG_CACHE_HOME name a folder that can be written") from None
    with scratch as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--no-binary", "horovod", "--dest", folder, "-r", str(PIN_FILE)]
        result = subprocess.run(command, env=environ, check=False, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        archive = Path(folder) / pin.file_name
        if "DO NOT MATCH THE HASHES" in result.stdout:
            raise BuildError(f"the package index serves another {pin.file_name} than the pinned "
                             f"one (SHA-256 {pin.sha256}):\n{result.stdout.strip()}")
        if result.returncode != 0 or not archive.is_file():
            raise BuildError(
                f"cannot get {pin.file_name} from the package index that pip is configured for; "
                f"without an index, set {FILE_SETTING}=/path/to/{pin.file_name}. pip said:\n"
                + "\n".join(result.stdout.strip().splitlines()[-8:]))
        shutil.move(archive, target)
