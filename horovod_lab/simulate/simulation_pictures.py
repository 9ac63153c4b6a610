"""The simulation as pictures, from its JSON alone."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from graph_analysis.palette import BLUE, GREY, VERMILION, YELLOW
from horovod_lab.measuring.present import Picture, Section
from horovod_lab.simulate import summit, tables
from horovod_lab.simulate.validation_picture import validation
from horovod_lab.style import MARKERS, TIMELINE, mode_colour

PARTS = {"compute": ("#B8BEC6", "compute"),
         "overhead": (VERMILION, "overhead: negotiation, agreement, cycles"),
         "waiting": (YELLOW, "waiting in the data's allreduce"),
         "data": (BLUE, "data moved")}
LABELS = {"ResNet18": ("center", (0, -14)), "ResNet34": ("right", (-6, -3))}  # others are near
SOURCE_MARKER = {False: "x", True: "s"}  # by whether it was used for fitting
STATES = {"asleep": (TIMELINE["asleep"], "asleep"),
          "overslept": (TIMELINE["overslept"], "overslept"),
          "waiting": (TIMELINE["spinning"], "waits in MPI, spinning"),
          "napping": (TIMELINE["napping"], "waits, asleep between tests"),
          "data": (TIMELINE["data"], "data")}
FITTED_TO, NOT_USED = "source, fitted to", "source, not used"
SOURCE = " Compare Figures {} of the source."


def section(document: dict[str, Any]) -> Section:
    """Figures 6.5, 6.7 to 6.12 and 6.16 to 6.18 of the source, as simulated."""
    document = {**document, "source": summit.complete(document.get("source")),
                "networks": summit.complete(document.get("networks"))}
    results = document["results"]
    pictures = []
    if len({result["ranks"] for result in results}) > 1:
        pictures += [scaling(document), background(document)]
        if any(result["improvement_over_off"] is not None and result["mode"] != "off"
               for result in results):
            pictures.append(improvement(document))
    pictures.append(breakdown(document))
    if any(result.get("timeline") for result in results):
        pictures.append(timelines(document))
    if document.get("networks"):
        pictures.append(networks(document))
    if document.get("validation"):
        pictures.append(validation(document))
    return Section(
        "Simulation: what the modes bring at scale", _summary(document),
        [tables.results(document), *tables.source(document), *tables.validation(document),
         tables.parameters(document)], pictures)


def _summary(document: dict[str, Any]) -> str:
    largest = max(result["ranks"] for result in document["results"])
    there = [result for result in document["results"] if result["ranks"] == largest]
    text = f"At {largest:,} ranks ({document['preset']}): " + "; ".join(
        f"{result['mode']} {100 * result['efficiency']:.1f} % efficiency"
        + (f", {100 * result['improvement_over_off']:+.1f} % over off"
           if result["improvement_over_off"] is not None and result["mode"] != "off" else "")
        for result in there) + "."
    if document.get("source"):
        text += f" Beside the source: {summit.counts(document['source'])}"
    job = document["profiled"]
    same = next((result for result in document["results"]
                 if job and (result["mode"], result["ranks"]) == (job["mode"], job["ranks"])), None)
    if same:
        text += (f" The profiled job, {job['mode']} on {job['ranks']} ranks, took "
                 f"{1e3 * job['step_seconds']:.1f} ms a step; simulated are "
                 f"{1e3 * same['step_seconds']['mean']:.1f} ms.")
    if validation := document.get("validation"):
        predicted = [point for point in validation["points"] if not point["calibrated"]]
        near = sum(abs(point["error"]) <= validation["band"] for point in predicted)
        text += (f" Of {len(predicted)} measured points that were not used for calibration, {near} "
                 f"are predicted within {100 * validation['band']:.0f} %.")
    return text


def _modes(document: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(result["mode"] for result in document["results"]))


def _over_ranks(axis: Axes, document: dict[str, Any], key: str, scale: float) -> None:
    """A line a mode."""
    for index, mode in enumerate(_modes(document)):
        rows = [result for result in document["results"]
                if result["mode"] == mode and result[key] is not None]
        axis.plot([result["ranks"] for result in rows], [scale * result[key] for result in rows],
                  color=mode_colour(mode), marker=MARKERS[index % len(MARKERS)], markersize=6,
                  label=mode)
    axis.set_xscale("log")
    counts = sorted({result["ranks"] for result in document["results"]})
    axis.set_xticks(counts, [f"{count:,}" for count in counts], fontsize=9,
                    rotation=30 if len(counts) > 5 else 0)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(color="#E5E5E5", linewidth=0.7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("ranks")


def scaling(document: dict[str, Any]) -> Picture:
    figure = Figure(figsize=(7.0, 7.0), layout="constrained")
    above, below = figure.subplots(2, 1)
    results = document["results"]
    first = results[0]
    ideal = first["images_per_second"] / first["efficiency"] / first["ranks"]
    counts = sorted({result["ranks"] for result in results})
    above.plot(counts, [ideal * count for count in counts], color="black", linestyle="--",
               label="no communication")
    _over_ranks(above, document, "images_per_second", 1)
    above.set_yscale("log")
    above.set_ylabel(f"{tables.unit(document)} of all ranks")
    above.legend(frameon=False, fontsize=10)
    _over_ranks(below, document, "efficiency", 100)
    below.set_ylim(0, 105)
    below.set_ylabel("efficiency, %")
    if document["preset"] == "summit":
        below.plot([24_576], [30.3], "x", color="black", markersize=9, markeredgewidth=2,
                   label="source: off, 30.3 %, fitted to")
        below.legend(*[[legend[-1]] for legend in below.get_legend_handles_labels()], frameon=False,
                     fontsize=10, loc="lower left")
    return Picture("simulated-scaling", "Weak scaling, simulated",
                   "Training speed, and efficiency against training without communication."
                   + SOURCE.format("6.5 and 6.16 (a)"), figure)


def improvement(document: dict[str, Any]) -> Picture:
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axis = figure.subplots()
    _over_ranks(axis, document, "improvement_over_off", 100)
    axis.set_ylabel("improvement over off, %")
    caption = "How much faster than off each mode trains."
    rows = [row for row in document.get("source", ())
            if row["figure"].startswith("improvement, ")]
    for row in rows:
        colour = mode_colour(row["figure"].split(", ")[1])
        axis.plot([24_576 * 1.45], [100 * row["source"][0]], "<", color=colour, markersize=9,
                  markerfacecolor="white" if row["fitted"] else colour)
    if rows:
        axis.plot([], [], "<", color=GREY, markersize=9, markerfacecolor="white", label=FITTED_TO)
        axis.plot([], [], "<", color=GREY, markersize=9, label=NOT_USED)
        caption += (" Triangles at the right: the source's largest improvement of each mode, hollow"
                    " if it was used for fitting.")
    axis.legend(frameon=False, fontsize=10, ncols=3, loc="lower center",
                bbox_to_anchor=(0.5, 1.0))
    return Picture("simulated-improvement", "Improvement over off, simulated",
                   caption + SOURCE.format("6.16 (b)"), figure)


def background(document: dict[str, Any]) -> Picture:
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axis = figure.subplots()
    _over_ranks(axis, document, "background_cpu", 100)
    axis.set_ylim(0, 105)
    axis.set_ylabel("background thread, % of a core")
    axis.legend(frameon=False, fontsize=10, ncols=3, loc="lower center",
                bbox_to_anchor=(0.5, 1.0))
    return Picture("simulated-background", "CPU time of the background thread, simulated",
                   "Mean over ranks. With scp it has a core that is not taken from anybody."
                   + SOURCE.format("6.10 and 6.18"), figure)


def breakdown(document: dict[str, Any]) -> Picture:
    """Left: off and topo (or what there is) over ranks, in percent; right: all modes, in ms."""
    results, modes = document["results"], _modes(document)
    shown_modes = [mode for mode in ("off", "topo") if mode in modes] or modes[:1]
    figure = Figure(figsize=(8.0, 3.3 * (len(shown_modes) + 1)), layout="constrained")
    axes = figure.subplots(len(shown_modes) + 1, 1)
    for axis, mode in zip(axes, shown_modes):
        rows = [result for result in results if result["mode"] == mode]
        _stack(axis, rows, [f"{result['ranks']:,}" for result in rows],
               [100 / result["step_seconds"]["mean"] for result in rows])
        axis.set_ylabel("of a step, %")
        axis.set_xlabel("ranks")
        axis.set_title(mode, fontsize=11, loc="left")
    largest = [result for result in results if result["ranks"] == max(r["ranks"] for r in results)]
    _stack(axes[-1], largest, [result["mode"] for result in largest], [1e3] * len(largest))
    axes[-1].set_ylabel("ms a step")
    axes[-1].set_title(f"all modes, {largest[0]['ranks']:,} ranks", fontsize=11, loc="left")
    figure.legend(handles=[Patch(color=colour, label=text) for colour, text in PARTS.values()],
                  loc="outside upper center", ncols=2, frameon=False, fontsize=10)
    return Picture("simulated-breakdown", "Where a step's time goes, simulated",
                   "Means over ranks and steps. Ranks wait for the slowest one in the negotiation, "
                   "or with topo in the data's allreduce, as the source counts it."
                   + SOURCE.format("6.6, 6.7 and 6.17"), figure)


def _stack(axis: Axes, rows: list[dict], labels: list[str], scales: list[float]) -> None:
    bottom = [0.0] * len(rows)
    for part, (colour, _) in PARTS.items():
        heights = [scale * _part(row, part) for row, scale in zip(rows, scales)]
        axis.bar(range(len(rows)), heights, 0.7, bottom, color=colour)
        bottom = [below + height for below, height in zip(bottom, heights)]
    axis.set_xticks(range(len(rows)), labels, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _part(row: dict, part: str) -> float:
    parts = row["breakdown"]
    waiting = parts["waiting_for_the_slowest"] if "topo" in row["mode"] else 0.0
    return {"waiting": waiting, "data": parts["data"] - waiting}.get(part, parts.get(part, 0.0))


def timelines(document: dict[str, Any]) -> Picture:
    rows = [row for row in document["results"] if row.get("timeline")]
    figure = Figure(figsize=(8.0, 1.55 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axis, row in zip(axes, rows):
        for state, (colour, _) in STATES.items():
            for rank in {event[0] for event in row["timeline"]}:
                spans = [(1e3 * begin, 1e3 * (end - begin)) for number, kind, begin, end
                         in row["timeline"] if (number, kind) == (rank, state)]
                axis.broken_barh(spans, (rank - 0.38, 0.76), color=colour, linewidth=0)
        ranks = sorted({event[0] for event in row["timeline"]})
        axis.set_yticks(ranks, [str(rank) for rank in ranks], fontsize=9)
        axis.invert_yaxis()
        axis.set_ylabel("rank")
        axis.set_title(row["mode"], fontsize=11, loc="left", pad=3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("ms since the start of the step")
    axes[-1].set_xlim(left=0)
    states = {event[1] for row in rows for event in row["timeline"]}
    figure.legend(handles=[Patch(color=colour, label=text)
                           for state, (colour, text) in STATES.items() if state in states],
                  loc="outside upper center", ncols=3, frameon=False, fontsize=10)
    return Picture("simulated-timelines", "Cycles of the background threads, simulated",
                   f"The last step of the first of {rows[0]['ranks']:,} ranks. Blank, with topo: "
                   "the data's allreduce waits for the last rank."
                   + SOURCE.format("6.8, 6.9, 6.11 and 6.12"), figure)


def networks(document: dict[str, Any]) -> Picture:
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axis = figure.subplots()
    rows = document["networks"]
    for network in rows:
        window, value = 100 * network["window"], 100 * network["simulated"]
        axis.plot([window], [value], "o", color=mode_colour("topo"))
        align, offset = LABELS.get(network["network"], ("left", (4, 5)))
        axis.annotate(network["network"], (window, value), fontsize=9,
                      rotation=30 if align == "left" else 0, ha=align,
                      textcoords="offset points", xytext=offset)
        if network["source"]:
            low, high = (100 * bound for bound in network["source"])
            axis.errorbar([window], [(low + high) / 2], [[(high - low) / 2]] * 2, color="black",
                          marker=SOURCE_MARKER[network["fitted"]], markerfacecolor="white",
                          capsize=4)
    axis.plot([], [], "o", color=mode_colour("topo"), label="simulated")
    for is_fitted, label in ((False, NOT_USED), (True, FITTED_TO)):
        axis.errorbar([], [], [], color="black", marker=SOURCE_MARKER[is_fitted],
                      markerfacecolor="white", capsize=4, label=label)
    axis.margins(x=0.15, y=0.2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("CIS window, % of a step")
    axis.set_ylabel("improvement of topo over off, %")
    axis.legend(frameon=False, fontsize=10, loc="upper left")
    axis.spines[["top", "right"]].set_visible(False)
    return Picture("simulated-networks", "CIS window and improvement, simulated",
                   "The window in which graph scheduling and input pipeline both run (6.4.2; "
                   "Figure 6.20 has the curves). ResNet50's 21 % was used for fitting, at 24,576 "
                   "ranks.", figure)
