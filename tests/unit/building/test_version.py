"""The version of the patched horovod names the version of horovod-opt."""

from pathlib import Path

import horovod_opt
from building import series, upstream

PATCH = Path(__file__).parents[3] / "patches" / "hooks" / "version.patch"


def test_patched_version_is_upstreams_plus_ours():
    (hunk,) = series.parse(PATCH.read_text(), PATCH.name)["horovod/__init__.py"]
    pin = upstream.read_pin()
    assert hunk.removed == [f"__version__ = '{pin.version}'\n"]
    assert hunk.added == [f"__version__ = '{pin.version}+opt.{horovod_opt.__version__}'\n"]
