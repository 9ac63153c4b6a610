"""The simulation's tables, from its JSON alone."""

from __future__ import annotations

from typing import Any

from horovod_lab.measuring import present
from horovod_lab.measuring.present import Grid
from horovod_lab.simulate import summit

PARTS = ("compute", "overhead", "data")
MET = f"Met: within {100 * summit.HIT:.0f} % of a figure, or inside a range."


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def number(value: float) -> str:
    return present.number(value, ",")


def unit(document: dict[str, Any]) -> str:
    """Of what is trained in a second: without a batch, as from a profile, it is steps."""
    has_rate = not document["profiled"] or document["parameters"]["batch"]["origin"] == "set"
    return "images/s" if has_rate else "steps/s"


def results(document: dict[str, Any]) -> Grid:
    rows, previous = [], None
    for row in document["results"]:
        step = row["step_seconds"]
        parts = row["breakdown"]
        rows.append((
            f"{row['ranks']:,}" if row["ranks"] != previous else "", row["mode"],
            f"{number(1e3 * step['median'])} ({number(1e3 * step['p5'])} to "
            f"{number(1e3 * step['p95'])})",
            number(row["images_per_second"]), percent(row["efficiency"]),
            percent(row["improvement_over_off"]) if row["mode"] != "off" else "",
            *(percent(parts[part] / step["mean"]) for part in PARTS),
            percent(row["background_cpu"])))
        previous = row["ranks"]
    cost = document["cost"]
    return Grid(
        "Simulated training", ("ranks", "mode", "step, ms", unit(document), "efficiency, %",
                               "over off, %", "compute, %", "overhead, %", "data, %",
                               "background thread, % of a core"), rows,
        f"{document['steps']} steps each, seed {document['seed']}; {document['preset']}. Step: "
        "median (5th to 95th percentile). Efficiency is against the same ranks without "
        f"communication. Took {cost['seconds']:.0f} s of CPU and {cost['peak_mib']:.0f} MiB.")


def source(document: dict[str, Any]) -> list[Grid]:
    """Beside the source's figures, and its CIS windows."""
    grids = []
    if document.get("source"):
        grids.append(Grid(
            "Beside the source, at 24,576 ranks",
            ("figure", "section", "source, %", "simulated, %", "", "met"),
            [(row["figure"], row["section"], _range(row["source"]),
              percent(row["simulated"]), _kind(row), "yes" if row["met"] else "no")
             for row in sorted(document["source"], key=lambda row: not row["fitted"])],
            f"{summit.counts(document['source'])} {MET} The source's improvements are 'up to', "
            "over all numbers of GPUs; the simulated ones are at 24,576."))
    if document.get("ways"):
        grids.append(Grid(
            "topo by the way of messages between nodes, at "
            f"{document['ways'][0]['ranks']:,} ranks",
            ("messages", "over off, %", ""),
            [(row["messages"], percent(row["simulated"]), "predicted")
             for row in document["ways"]],
            "The source's topo sends none. The times of messages are assumed."))
    if document.get("networks"):
        grids.append(Grid(
            "Improvement of topo on other networks (6.4.2), at "
            f"{document['networks'][0]['ranks']:,} ranks",
            ("network", "CIS window, %", "source, %", "simulated, %", "", "met"),
            [(row["network"], percent(row["window"], 0),
              *((_range(row["source"]), percent(row["simulated"]), _kind(row),
                 "yes" if row["met"] else "no") if row["source"]
                else ("", percent(row["simulated"]), "", ""))) for row in document["networks"]],
            f"{summit.counts(document['networks'])} {MET} Windows are the source's; computation "
            "and gradients are scaled by published multiply-adds and parameters. ResNet50's figure "
            "was used at 24,576 ranks. The source gives 5 to 21 % for the ResNets together."))
    return grids


def _kind(row: dict[str, Any]) -> str:
    return "fitted" if row["fitted"] else "predicted"


def _range(pair: list[float]) -> str:
    low, high = pair
    return f"{100 * low:g}" if low == high else f"{100 * low:g} to {100 * high:g}"


def validation(document: dict[str, Any]) -> list[Grid]:
    validation = document.get("validation")
    if not validation:
        return []
    beside = [Grid(
        "Predicted and measured", (*BESIDE, "within 15 %"),
        [(*_beside(point), "yes" if abs(point["error"]) <= validation["band"] else "no")
         for point in validation["points"]],
        f"Calibrated on {validation['calibrated_on']}; all other points are predictions.")]
    if validation.get("cpu"):
        beside.append(Grid("CPU time of Horovod's threads, predicted and measured", BESIDE,
                           [_beside(point) for point in validation["cpu"]], "Mean over ranks."))
    return [*beside, Grid(
        "Fitted to these measurements", ("of", "parameter", "value", "unit", "origin"),
        [(name, key, f"{value['value']:.4g}", value["unit"], value["origin"])
         for name, table in validation["parameters"].items() for key, value in table.items()
         if value["origin"].startswith("calibrated")],
        "All other parameters were measured otherwise, published, or assumed.")]


BESIDE = ("measured", "ranks", "series", "unit", "measured (min to max)", "n", "predicted",
          "error, %")


def _beside(point: dict[str, Any]) -> tuple[str, ...]:
    return (point["cell"], str(point["ranks"]), point["series"], point.get("unit", "images/s"),
            f"{number(point['measured'])} ({number(point['low'])} to {number(point['high'])})",
            str(point["n"]), number(point["predicted"]),
            f"{100 * point['error']:+.1f}" + (" (calibrated)" if point["calibrated"] else ""))


def parameters(document: dict[str, Any]) -> Grid:
    return Grid(
        "Parameters", ("parameter", "value", "unit", "meaning", "origin"),
        [(name, f"{value['value']:.6g}", value["unit"], value["meaning"], value["origin"])
         for name, value in document["parameters"].items()],
        "" if document["profiled"] else
        "FITTED: chosen with the figures in view that the table beside the source calls fitted.")
