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
    known = not document["profiled"] or document["parameters"]["batch"]["origin"] == "set"
    return "images/s" if known else "steps/s"


def results(document: dict[str, Any]) -> Grid:
    rows, previous = [], None
    for one in document["results"]:
        step = one["step_seconds"]
        parts = one["breakdown"]
        rows.append((
            f"{one['ranks']:,}" if one["ranks"] != previous else "", one["mode"],
            f"{number(1e3 * step['median'])} ({number(1e3 * step['p5'])} to "
            f"{number(1e3 * step['p95'])})",
            number(one["images_per_second"]), percent(one["efficiency"]),
            percent(one["improvement_over_off"]) if one["mode"] != "off" else "",
            *(percent(parts[part] / step["mean"]) for part in PARTS),
            percent(one["background_cpu"])))
        previous = one["ranks"]
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
            [(one["figure"], one["section"], _range(one["source"]),
              percent(one["simulated"]), _kind(one), "yes" if one["met"] else "no")
             for one in sorted(document["source"], key=lambda one: not one["fitted"])],
            f"{summit.counts(document['source'])} {MET} The source's improvements are 'up to', "
            "over all numbers of GPUs; the simulated ones are at 24,576."))
    if document.get("ways"):
        grids.append(Grid(
            "topo by the way of messages between nodes, at "
            f"{document['ways'][0]['ranks']:,} ranks",
            ("messages", "over off, %", ""),
            [(one["messages"], percent(one["simulated"]), "predicted")
             for one in document["ways"]],
            "The source's topo sends none. The times of messages are assumed."))
    if document.get("networks"):
        grids.append(Grid(
            "Improvement of topo on other networks (6.4.2), at "
            f"{document['networks'][0]['ranks']:,} ranks",
            ("network", "CIS window, %", "source, %", "simulated, %", "", "met"),
            [(one["network"], percent(one["window"], 0),
              *((_range(one["source"]), percent(one["simulated"]), _kind(one),
                 "yes" if one["met"] else "no") if one["source"]
                else ("", percent(one["simulated"]), "", ""))) for one in document["networks"]],
            f"{summit.counts(document['networks'])} {MET} Windows are the source's; computation "
            "and gradients are scaled by published multiply-adds and parameters. ResNet50's figure "
            "was used at 24,576 ranks. The source gives 5 to 21 % for the ResNets together."))
    return grids


def _kind(one: dict[str, Any]) -> str:
    return "fitted" if one["fitted"] else "predicted"


def _range(pair: list[float]) -> str:
    low, high = pair
    return f"{100 * low:g}" if low == high else f"{100 * low:g} to {100 * high:g}"


def validation(document: dict[str, Any]) -> list[Grid]:
    found = document.get("validation")
    if not found:
        return []
    beside = [Grid(
        "Predicted and measured", (*BESIDE, "within 15 %"),
        [(*_beside(one), "yes" if abs(one["error"]) <= found["band"] else "no")
         for one in found["points"]],
        f"Calibrated on {found['calibrated_on']}; all other points are predictions.")]
    if found.get("cpu"):
        beside.append(Grid("CPU time of Horovod's threads, predicted and measured", BESIDE,
                           [_beside(one) for one in found["cpu"]], "Mean over ranks."))
    return [*beside, Grid(
        "Fitted to these measurements", ("of", "parameter", "value", "unit", "origin"),
        [(name, key, f"{one['value']:.4g}", one["unit"], one["origin"])
         for name, table in found["parameters"].items() for key, one in table.items()
         if one["origin"].startswith("calibrated")],
        "All other parameters were measured otherwise, published, or assumed.")]


BESIDE = ("measured", "ranks", "series", "unit", "measured (min to max)", "n", "predicted",
          "error, %")


def _beside(one: dict[str, Any]) -> tuple[str, ...]:
    return (one["cell"], str(one["ranks"]), one["series"], one.get("unit", "images/s"),
            f"{number(one['measured'])} ({number(one['low'])} to {number(one['high'])})",
            str(one["n"]), number(one["predicted"]),
            f"{100 * one['error']:+.1f}" + (" (calibrated)" if one["calibrated"] else ""))


def parameters(document: dict[str, Any]) -> Grid:
    return Grid(
        "Parameters", ("parameter", "value", "unit", "meaning", "origin"),
        [(name, f"{one['value']:.6g}", one["unit"], one["meaning"], one["origin"])
         for name, one in document["parameters"].items()],
        "" if document["profiled"] else
        "FITTED: chosen with the figures in view that the table beside the source calls fitted.")
