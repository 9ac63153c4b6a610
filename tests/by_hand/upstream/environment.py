"""What the suites are run from and with: upstream's checkout and the Pythons' packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

VERSION = "0.28.1"
REPORTED = ("tensorflow", "torch", "keras", "tf_keras", "numpy", "mpi4py", "ray", "pyspark")

# In the Python to examine: one line of JSON with versions and what is missing.
EXAMINE = f"""
import importlib.metadata, importlib.util, json, platform, sys
versions = {{"python": platform.python_version()}}
if importlib.util.find_spec("horovod"):
    import horovod
    versions["horovod"] = horovod.__version__
for dist in importlib.metadata.distributions():
    name = dist.metadata["Name"].replace("-", "_").removesuffix("_cpu")
    if name in {REPORTED!r}:
        versions[name] = dist.version
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps({{"versions": versions, "missing": missing}}))
"""


class Unusable(Exception):
    """The suites cannot be run; one line that says why and what to do."""


def check_checkout(path: Path) -> Path:
    """The absolute path of upstream's checkout.

    Raises:
        Unusable: it is none, or one of another version.
    """
    try:
        text = (path / "horovod" / "__init__.py").read_text()
    except OSError:
        text = ""
    version = re.search(r"^__version__ = '(.+)'$", text, re.MULTILINE)
    if not version or not (path / "test" / "parallel").is_dir():
        raise Unusable(f"{path} is no checkout of Horovod's repository; "
                       f"git clone --branch v{VERSION} https://github.com/horovod/horovod")
    if version[1] != VERSION:
        raise Unusable(f"{path} is Horovod {version[1]}, not {VERSION}; git checkout v{VERSION}")
    return path.absolute()


def examine(python: str, needs: Iterable[str], install: str, *, patched: bool) -> dict[str, str]:
    """Versions of what is installed for `python`, by name. `needs`: modules that must be there;
    `install`: what to do where one is not, "{python} -m pip install {missing}".

    Raises:
        Unusable: no Horovod, the wrong one (ours if `patched`, else upstream's), or not all of
            `needs`.
    """
    environ = {name: text for name, text in os.environ.items() if "HOROVOD" not in name}
    try:
        facts = json.loads(subprocess.run([python, "-c", EXAMINE, *needs], env=environ,
                                          text=True, check=True, capture_output=True).stdout)
    except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
        raise Unusable(f"{python} does not run: {error}") from error
    horovod = facts["versions"].get("horovod", "")
    if not horovod:
        raise Unusable(f"no Horovod is installed for {python}")
    if ("+opt" in horovod) != patched:
        expected = "horovod-opt" if patched else f"a plain build of Horovod {VERSION}"
        raise Unusable(f"Horovod {horovod} is installed for {python}, not {expected}")
    if facts["missing"]:
        missing = " ".join(facts["missing"])
        remedy = install.format(python=python, missing=missing)
        raise Unusable(f"{python} lacks {missing}: {remedy}")
    return facts["versions"]
