"""Creates a virtual environment with pip in it, also where Debian's python3-venv is missing.

    python3 -m building.make_venv FOLDER
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from building import debian_package


def make(folder: Path) -> None:
    """Raises SystemExit with the remedy if there is no way to get pip."""
    if _succeeds("-c", "import ensurepip"):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        return
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            files = debian_package.unpack("python3-pip-whl", Path(scratch) / "pip")
        except debian_package.NotAvailable as error:
            sys.exit(f"{sys.executable} has no ensurepip, and {error}\n"
                     "Install your system's python3-venv.")
        (wheel,) = files.glob("usr/share/python-wheels/pip-*.whl")
        subprocess.run([folder / "bin" / "python", wheel / "pip", "install", "--quiet",
                        "--no-index", wheel], check=True)


def _succeeds(*arguments: str) -> bool:
    return subprocess.run([sys.executable, *arguments], stderr=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
