"""Refuses `import horovod` when HOROVOD_OPT_MODE is set but that horovod is not ours.

Without this, `pip install horovod` over ours, or another copy earlier on the path, would
train in silence without the mode. horovod_opt.pth arms the guard at the start of a Python
that has HOROVOD_OPT_MODE in its environment, and refuses every horovod if that fails.
"""

import os
import sys

# Part of our horovod.__version__, as in 0.28.1+opt.0.2.0.
MARK = "+opt."


def version_of(spec) -> str:
    """The horovod.__version__ that importing `spec` would give, without running its code."""
    import re

    try:
        source = spec.loader.get_source("horovod")
    except (AttributeError, ImportError, SyntaxError):
        source = None
    match = re.search(r"^__version__\s*=\s*['\"]([^'\"]*)['\"]", source or "", re.MULTILINE)
    return match.group(1) if match else "unknown"


def location_of(spec) -> str:
    """The folder or file of `spec`, also for a folder without __init__.py."""
    return spec.origin or ", ".join(spec.submodule_search_locations or [])


def refusal(spec) -> str:
    """Why `spec` must not be imported while HOROVOD_OPT_MODE is set; "" if it is ours."""
    version = version_of(spec)
    if MARK in version:
        return ""
    return (
        f"HOROVOD_OPT_MODE={os.environ.get('HOROVOD_OPT_MODE')!r} is set, but the horovod that "
        f"Python finds is not the one of horovod-opt and knows no modes: version {version}, "
        f"{location_of(spec)}.\n"
        "If it was installed over ours: pip uninstall horovod; "
        "pip install --force-reinstall horovod-opt. If it is another copy, take its folder off "
        "PYTHONPATH. To use it as it is, unset HOROVOD_OPT_MODE."
    )


class _RefusingLoader:
    """A loader, because looking for horovod is fine and only importing it is an error."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def create_module(self, spec):
        raise ImportError(self.reason, name=spec.name, path=spec.origin)

    def exec_module(self, module):
        """Never reached; the import system asks for it."""


class _Guard:
    """A finder that looks at `horovod` and leaves everything else to the next ones."""

    def find_spec(self, name, path=None, target=None):
        if name != "horovod" or not os.environ.get("HOROVOD_OPT_MODE", "").strip():
            return None
        spec = find_horovod()
        reason = refusal(spec) if spec else ""
        if reason:
            spec.loader = _RefusingLoader(reason)
        return spec


def find_horovod():
    """The spec of the horovod that would be imported without the guard, or None."""
    for finder in sys.meta_path:
        if not isinstance(finder, _Guard) and hasattr(finder, "find_spec"):
            spec = finder.find_spec("horovod", None, None)
            if spec is not None:
                return spec
    return None


def arm() -> None:
    """Watches the imports of this process from now on."""
    sys.meta_path.insert(0, _Guard())
