"""What a kernel for the TensorFlow that is installed is compiled with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

ASK = """
import json
import tensorflow as tf
print(json.dumps([tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]))
"""


@dataclass(frozen=True)
class TensorFlow:
    """Its own words, of tf.sysconfig."""

    version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def find_tensorflow(variables: Mapping[str, str]) -> TensorFlow | None:
    """None: there is none that can be imported, or HOROVOD_WITHOUT_TENSORFLOW=1."""
    if variables.get("HOROVOD_WITHOUT_TENSORFLOW") == "1":
        return None
    found = subprocess.run([sys.executable, "-c", ASK], env=dict(variables), check=False, cwd="/",
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        return None
    version, compile_flags, link_flags = json.loads(found.stdout.splitlines()[-1])
    return TensorFlow(version, tuple(compile_flags), tuple(link_flags))
