"""What the ranks of an input job have said: workers/input/input_job.py."""

from __future__ import annotations

import json
from pathlib import Path


def said(folder: Path, ranks: int) -> list[list[dict]]:
    """The lines of each rank; of one that was killed, those that it has written whole."""
    return [_lines(folder / f"said-{rank}.jsonl") for rank in range(ranks)]


def _lines(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
