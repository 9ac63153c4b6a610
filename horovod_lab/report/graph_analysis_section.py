"""What the analysis of graphs costs (`experiments/graph_analysis_cost.py`), as a report's part."""

from __future__ import annotations

from matplotlib.figure import Figure

from graph_analysis.palette import BLUE, GREY, ORANGE
from horovod_lab.measuring.present import Grid, Picture, Section


def section(document: dict) -> Section:
    networks, series = document["networks"], document["synthetic"]
    return Section(
        "What the analysis of a graph costs",
        "Reading a training step's graph and planning its collectives, once, before it first runs.",
        [Grid("Networks, beside the source's Table 6.1",
              ("network", "nodes", "edges", "collectives", "buckets", "read ms", "analyse ms",
               "us/node", "source: nodes", "edges", "ms"),
              [_network_row(row) for row in networks]),
         Grid("Synthetic training steps",
              ("nodes", "edges", "collectives", "analyse ms", "us/node", "against the smallest"),
              [(f"{row['nodes']:,}", f"{row['edges']:,}", f"{row['collectives']:,}",
                f"{row['ms']:.1f}", f"{row['us_per_node']:.2f}",
                f"{row['us_per_node'] / series[0]['us_per_node']:.2f}") for row in series])],
        [picture(document)])


def _network_row(row: dict) -> tuple[str, ...]:
    source = row["source"]
    return (row["network"], f"{row['nodes']:,}", f"{row['edges']:,}", str(row["collectives"]),
            str(row["buckets"]), f"{row['read_ms']:.0f}", f"{row['analyse_ms']:.0f}",
            f"{row['us_per_node']:.1f}", f"{source['nodes']:,}", f"{source['edges']:,}",
            f"{source['ms']:,}")


def picture(document: dict) -> Picture:
    networks, series = document["networks"], document["synthetic"]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    times, per_node = figure.subplots(1, 2)
    for label, key, colour in (("read", "read_ms", ORANGE),
                               ("analyse", "analyse_ms", BLUE)):
        times.plot([row["nodes"] for row in networks], [row[key] for row in networks], "o",
                   color=colour, label=label)
    times.plot([row["source"]["nodes"] for row in networks],
               [row["source"]["ms"] for row in networks], "s", color=GREY,
               label="traversal in the source")
    times.set(xscale="log", yscale="log", xlabel="nodes", ylabel="ms (lower is better)")
    times.set_title("The networks of Table 6.1", fontsize=11)
    times.legend(frameon=False, fontsize=9)
    per_node.plot([row["nodes"] for row in series], [row["us_per_node"] for row in series], "o-",
                  color=BLUE)
    per_node.set(xscale="log", xlabel="nodes", ylabel="us per node (lower is better)")
    per_node.set_ylim(0, 1.3 * max(row["us_per_node"] for row in series))
    per_node.set_title("Synthetic training steps", fontsize=11)
    for axis in (times, per_node):
        axis.spines[["top", "right"]].set_visible(False)
    about = document["machine"]
    figure.supxlabel(f"{about['cpu']}; CPU time, the shortest of {document['repeats']}", fontsize=8,
                     color="#555555")
    return Picture(
        "traversal", "What the analysis of a graph costs",
        "Left: the networks of the source's Table 6.1, and its figures. Right: synthetic training "
        "steps; the analysis takes O(V+E).", figure)
