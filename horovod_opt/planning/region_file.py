"""The regions that a job finds, as files: HOROVOD_OPT_PLANS names the folder."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from graph_analysis import Negotiated, Plan, Region

PLANS = "HOROVOD_OPT_PLANS"

_numbers = itertools.count()


def write_region(region: Region, folder: Path) -> None:
    """A file with the next number, whole or not at all: a job may be killed at any time."""
    file = folder / f"{next(_numbers):04d}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps({
        "name": region.name,
        "plan": region.plan and json.loads(region.plan.to_json()),
        "unplanned": region.unplanned,
        "reason": region.reason,
    }, indent=1))
    part.rename(file)


def read_region(file: Path) -> Region:
    content = json.loads(file.read_text())
    plan = content["plan"] and Plan.from_json(json.dumps(content["plan"]))
    unplanned = tuple(Negotiated(*one) for one in content["unplanned"])
    return Region(content["name"], plan, unplanned, content["reason"])
