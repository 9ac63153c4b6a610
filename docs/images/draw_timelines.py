"""Draws docs/images/timeline-*.svg: two background threads over four cycles, in each mode.

    python docs/images/draw_timelines.py

The times are simulated by the rules of the modes, not measured. Our own drawing of what the
dissertation shows in Figures 6.8, 6.9, 6.11 and 6.12.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from horovod_lab.style import TIMELINE

IMAGES = Path(__file__).parent

CYCLE = 1000.0  # HOROVOD_CYCLE_TIME and all times here: us
ALLREDUCE = 90.0  # from the arrival of the last rank
AGREEMENT = 60.0  # mode gs: the allreduce of the sleep times
OVERSLEEP = 1150.0  # of rank 1, in cycle 0
CYCLES = 4
FIRST_SLEEP, LONGEST_SLEEP = 20.0, 500.0  # mode nbcs; each takes TIMER_SLACK longer
TIMER_SLACK = 60.0
# Mode topo: when each bucket is complete on rank 0 and on rank 1, which oversleeps once.
COMPLETE = ((620.0, 700.0), (1240.0, 1180.0 + OVERSLEEP), (1900.0, 1900.0), (2800.0, 3050.0),
            (3700.0, 3640.0))
REDUCTION = 190.0

KINDS = {  # what a thread does: its colour and the legend
    "sleep": (TIMELINE["asleep"], "asleep between cycles"),
    "oversleep": (TIMELINE["overslept"], "overslept: the kernel ran something else"),
    "spin": (TIMELINE["spinning"], "waiting in MPI: spins, the core is burnt"),
    "nap": (TIMELINE["napping"], "waiting: asleep between two tests (ticks)"),
    "agreement": (TIMELINE["agreement"], "allreduce: minimum of the sleep times"),
    "allreduce": (TIMELINE["allreduce"], "allreduce of the cache bits"),
    "work": (TIMELINE["framework"], "framework: graph, input pipeline"),
    "idle": (TIMELINE["asleep"], "asleep until a bucket is complete on both ranks"),
    "bucket": (TIMELINE["data"], "reduces a bucket"),
}


@dataclass(frozen=True)
class Segment:
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Row:
    label: str
    detail: str
    segments: list[Segment]


def naps(start: float, done: float) -> list[Segment]:
    """Sleeps from `start` until the first test after `done`; each twice as long as the last."""
    segments, length = [], FIRST_SLEEP
    while start < done:
        end = start + length + TIMER_SLACK
        segments.append(Segment("nap", start, end))
        start, length = end, min(2 * length, LONGEST_SLEEP)
    return segments


def wait(mode: str, arrivals: list[float]) -> list[list[Segment]]:
    """How each rank gets from its arrival at the allreduce to its end."""
    last = max(arrivals)
    waits = [[Segment("spin", arrival, last)] for arrival in arrivals]
    if mode == "nbcs":  # MPI progresses only while it is called: the late rank waits for a test
        early = [naps(arrival, last) for arrival in arrivals]
        noticed = max([last, *(nap[-1].end for nap in early if nap)])
        waits = [nap or naps(last, noticed) for nap in early]
    return [
        segments + [Segment("allreduce", segments[-1].end, segments[-1].end + ALLREDUCE)]
        for segments in waits
    ]


def reduce_buckets() -> list[Segment]:
    """Mode topo: the same on both ranks, in the order in which buckets are complete on both."""
    segments, now = [], 0.0
    for complete in sorted(max(times) for times in COMPLETE):
        start = max(now, complete)
        segments += [Segment("idle", now, start), Segment("bucket", start, start + REDUCTION)]
        now = start + REDUCTION
    return segments


def simulate(mode: str) -> list[list[Segment]]:
    """What the background threads of two ranks do in `mode`."""
    if mode == "topo":
        return [reduce_buckets(), reduce_buckets()]
    threads: list[list[Segment]] = [[], []]
    now = [0.0, 0.0]
    cycle_start = [0.0, 0.0]
    for cycle in range(CYCLES):
        sleep = [max(0.0, cycle_start[rank] + CYCLE - now[rank]) for rank in (0, 1)]
        if mode == "gs":
            sleep = [min(sleep)] * 2
        for rank, thread in enumerate(threads):
            if mode == "gs":
                thread.append(Segment("agreement", now[rank], now[rank] + AGREEMENT))
                now[rank] += AGREEMENT
            thread.append(Segment("sleep", now[rank], now[rank] + sleep[rank]))
            now[rank] += sleep[rank]
            if (cycle, rank) == (0, 1):
                thread.append(Segment("oversleep", now[rank], now[rank] + OVERSLEEP))
                now[rank] += OVERSLEEP
            cycle_start[rank] = now[rank]
        for rank, segments in enumerate(wait(mode, now)):
            threads[rank] += segments
            now[rank] = segments[-1].end
    return [[s for s in thread if s.end > s.start] for thread in threads]


def graph_and_path(rank: int, path: list[Segment]) -> list[Row]:
    """What the framework does until its last bucket is complete, and the planned path below it."""
    end = max(times[rank] for times in COMPLETE)
    work = [Segment("work", 0.0, end)]
    if rank == 1:
        late = COMPLETE[0][1]
        work = [Segment("work", 0.0, late), Segment("oversleep", late, late + OVERSLEEP),
                Segment("work", late + OVERSLEEP, end)]
    return [Row(f"rank {rank}", "graph", work), Row("", "planned path", path)]


def rows(mode: str) -> list[Row]:
    threads = simulate("off" if mode == "scp" else mode)
    if mode == "topo":
        return [row for rank, thread in enumerate(threads) for row in graph_and_path(rank, thread)]
    if mode != "scp":
        return [Row(f"rank {rank}", "background", thread) for rank, thread in enumerate(threads)]
    end = max(thread[-1].end for thread in threads)
    both = []
    for rank, thread in enumerate(threads):
        first = 4 * rank
        both.append(Row(f"cores {first} to {first + 2}", f"rank {rank}, the rest",
                        [Segment("work", 0.0, end)]))
        both.append(Row(f"core {first + 3}", f"rank {rank}, background", thread))
    return both


TITLES = {
    "off": ("off: upstream",
            "Rank 1 oversleeps once and stays late; in every cycle rank 0 spins for it."),
    "gs": ("gs: global sleep",
           "All ranks sleep the minimum of what each would: rank 1 is late for one cycle only."),
    "nbcs": ("nbcs: nonblocking cache synchronization",
             "Rank 1 stays late, but rank 0 sleeps between tests instead of spinning."),
    "scp": ("scp: static core partitioning",
            "Rank 0 spins as in off, on a core that nothing else may use."),
    "topo": ("topo: graph topology",
             "No cycles. A bucket is reduced when it is complete on both ranks; nobody spins."),
}

# Layout, in px.
WIDTH, LEFT, RIGHT = 960, 150, 24
TOP, ROW, BAR = 78, 54, 30
LEGEND_ROW, LEGEND_COLUMNS = 24, 3

STYLE = """
  text { font-family: -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 14px; }
  .card { fill: #ffffff; stroke: #d0d7de; }
  .title { fill: #1f2328; font-weight: 600; font-size: 17px; }
  .text { fill: #1f2328; }
  .faint { fill: #59636e; font-size: 12px; }
  .line { stroke: #59636e; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #3d444d; }
    .title, .text { fill: #f0f6fc; }
    .faint { fill: #9198a1; }
    .line { stroke: #9198a1; }
  }
"""


def draw(mode: str) -> str:
    """The SVG of `mode`. A card of its own colour: readable on light and dark pages."""
    table = rows(mode)
    end = max(thread[-1].end for mode in TITLES for thread in simulate(mode))
    scale = (WIDTH - LEFT - RIGHT) / end
    used = [kind for kind in KINDS if any(s.kind == kind for row in table for s in row.segments)]
    bottom = TOP + ROW * len(table)
    height = bottom + 34 + LEGEND_ROW * (-(-len(used) // LEGEND_COLUMNS)) + 10

    def x(time: float) -> str:
        return f"{LEFT + time * scale:.1f}"

    title, subtitle = TITLES[mode]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"',
        f' height="{height}" role="img" aria-label="{title}. {subtitle}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="24" y="32">{title}</text>',
        f'<text class="text" x="24" y="55">{subtitle}</text>',
    ]
    for number, row in enumerate(table):
        y = TOP + ROW * number + (ROW - BAR) / 2
        out.append(f'<text class="text" x="24" y="{y + 13:g}">{row.label}</text>')
        out.append(f'<text class="faint" x="24" y="{y + 29:g}">{row.detail}</text>')
        for segment in row.segments:
            width = (segment.end - segment.start) * scale
            out.append(
                f'<rect x="{x(segment.start)}" y="{y:g}" width="{width:.1f}" height="{BAR}" '
                f'fill="{KINDS[segment.kind][0]}"/>'
            )
            if segment.kind == "nap":  # the test at its end
                out.append(f'<rect x="{x(segment.end)}" y="{y - 4:g}" width="2" height="{BAR + 8}" '
                           'fill="#0b7a4b"/>')
    axis, labels = bottom + 4, bottom + 23
    out.append(
        f'<line class="line" x1="{LEFT}" y1="{axis}" x2="{WIDTH - RIGHT}" y2="{axis}"/>'
    )
    for tick in range(int(end // CYCLE) + 1):
        at = x(tick * CYCLE)
        out.append(f'<line class="line" x1="{at}" y1="{axis}" x2="{at}" y2="{axis + 5}"/>')
        out.append(
            f'<text class="faint" x="{at}" y="{labels}" text-anchor="middle">{tick}</text>'
        )
    out.append(f'<text class="faint" x="24" y="{labels}">time, cycle times</text>')
    for number, kind in enumerate(used):
        left = 24 + (number % LEGEND_COLUMNS) * (WIDTH - 48) / LEGEND_COLUMNS
        y = bottom + 36 + LEGEND_ROW * (number // LEGEND_COLUMNS)
        colour, meaning = KINDS[kind]
        out.append(f'<rect x="{left:g}" y="{y}" width="16" height="14" rx="2" fill="{colour}"/>')
        out.append(f'<text class="faint" x="{left + 23:g}" y="{y + 12}">{meaning}</text>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    for mode in TITLES:
        (IMAGES / f"timeline-{mode}.svg").write_text(draw(mode))
