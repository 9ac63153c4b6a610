"""A plan as a table for the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from graph_analysis.negotiated import kinds
from graph_analysis.plan import Plan, size


def plan_table(plan: Plan) -> Table:
    """One row for each tensor, one section for each bucket, and one row for each kind of what stays
    negotiated."""
    table = Table("bucket", "id", "tensor", "shape", "dtype", "bytes", "why the bucket ends",
                  title=escape(f"{plan.name}: plan {plan.hash}, {size(plan.nbytes)}"))
    for column in (0, 1, 5):
        table.columns[column].justify = "right"
    table.columns[2].overflow = table.columns[6].overflow = "fold"
    for number, bucket in enumerate(plan.buckets):
        for position, slot in enumerate(bucket.slots):
            table.add_row(
                "" if position else str(number), str(slot.id), escape(slot.name),
                "x".join(map(str, slot.shape)) or "scalar", slot.dtype, size(slot.nbytes),
                escape(bucket.closed) if slot is bucket.slots[-1] else "")
        table.add_section()
    for ids, tensors, reason in kinds(plan.unplanned):
        table.add_row("", ids, escape(tensors), "", "", "", escape(f"negotiated: {reason}"))
    return table
