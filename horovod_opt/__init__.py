"""Horovod with an optimized background thread.

The modes are chosen with the environment variable ``HOROVOD_OPT_MODE``; training scripts
stay as they are. ``horovod_opt.stats()`` tells what the background thread costs.
"""

TYPE_CHECKING = False  # type checkers take it for typing's, whose import takes milliseconds
if TYPE_CHECKING:
    from horovod_opt.counters import Stats
    from horovod_opt.native.plan_text import PlanStatus
    from horovod_opt.runtime import plans, stats
    from horovod_opt.settings import SettingsError

__version__ = "0.2.0"
__all__ = ["PlanStatus", "SettingsError", "Stats", "plans", "stats"]

# Imported on first use: every Python of a job starts through horovod_opt.guard, which
# must cost nothing.
_HOMES = {
    "PlanStatus": "horovod_opt.native.plan_text",
    "Stats": "horovod_opt.counters",
    "plans": "horovod_opt.runtime",
    "SettingsError": "horovod_opt.settings",
    "stats": "horovod_opt.runtime",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
