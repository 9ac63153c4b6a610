"""A copy of upstream's tests with bfloat16 wherever they try float16.

Upstream has no bfloat16, so its tests do not name it. They check results in the type's own
precision, or in float32 where a type is float16: the same holds for bfloat16.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from environment import Unusable

_TENSORFLOW = ((r"\btf\.float16, (?=tf\.float32)", "tf.float16, tf.bfloat16, "),
               (r"== tf\.float16\b", "in (tf.float16, tf.bfloat16)"))
# By file: patterns, and what takes their place.
RULES = {
    "parallel/test_torch.py": (
        # Gradients are compared in NumPy, which PyTorch gives no bfloat16.
        (r"(?<!dtypes = \[torch\.FloatTensor, torch\.DoubleTensor, )\btorch\.HalfTensor\b",
         "torch.HalfTensor, torch.BFloat16Tensor"),
        (r"\[torch\.float16, ", "[torch.float16, torch.bfloat16, ")),
    "parallel/test_tensorflow.py": _TENSORFLOW,
    "parallel/test_tensorflow_process_sets.py": _TENSORFLOW,
}


def copy_with_bfloat16(checkout: Path, folder: Path) -> Path:
    """Makes `folder` a checkout with nothing but tests, which try bfloat16, too."""
    return copy_changed(checkout, folder, RULES)


def copy_changed(checkout: Path, folder: Path,
                 changes: Mapping[str, tuple[tuple[str, str], ...]]) -> Path:
    """Makes `folder` a checkout with nothing but tests, changed as in RULES.

    Raises:
        Unusable: a pattern is not found.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkout / "test", folder / "test",
                    ignore=shutil.ignore_patterns("__pycache__"))
    # pytest would take its configuration from the project that the copy lies in.
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, rules in changes.items():
        path = folder / "test" / name
        text = path.read_text()
        for pattern, replacement in rules:
            text, count = re.subn(pattern, replacement, text)
            if not count:
                raise Unusable(f"{checkout}/test/{name} has no {pattern}: is it v0.28.1?")
        path.write_text(text)
    return folder
