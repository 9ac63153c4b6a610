"""Plan files: from the bytes, a plan with damages, or just text."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from draw import Draw
from graph_input import plan_of

from graph_analysis import Plan, PlanError
from graph_analysis.bucket_sizes import Limits
from graph_analysis.plan_views import plan_table
from horovod_opt.native import plan_text
from horovod_opt.planning import plan_command


def target(data: bytes) -> None:
    """Either PlanError with a text, or a plan that all who use plans understand."""
    draw = Draw(data)
    if draw.one_in(4):
        text = data[1:].decode(errors="surrogateescape")
    else:
        document = plan_of(draw)
        text = json.dumps(document)
    try:
        plan = Plan.from_json(text)
    except PlanError as error:
        assert str(error)
        check_refusal(text)
        return
    check(plan)


def check_refusal(text: str) -> None:
    """horovod-opt plan says so in its own words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_bytes(text.encode(errors="surrogateescape"))
        try:
            plan_command.regions_of(path)
        except plan_command.CommandError as error:
            assert str(path) in str(error)


def check(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json() and again.hash == plan.hash
    ids = [slot.id for slot in plan.slots]
    assert ids == sorted(set(ids))
    assert all(before < slot.id for slot in plan.slots for before in slot.after)
    assert plan.explain()
    plan_table(plan)
    lines = plan_text.native_text(plan, Limits.same(0)).split("\n")
    kinds = [line.partition("\t")[0] for line in lines]
    assert kinds == ["plan", *["slot"] * len(plan.slots), *["bucket"] * len(plan.buckets), ""]
    assert {line.count("\t") for line in lines if line.startswith("slot")} <= {8}
