"""Lists of CPUs as Linux writes them: "0-3,5"."""

from __future__ import annotations

from collections.abc import Sequence


def parse(text: str) -> list[int]:
    """Ascending if the text is. Raises ValueError if it is no such list."""
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def write(cpus: Sequence[int]) -> str:
    """Of ascending CPUs."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
