"""Writes README.md, the page that shows all experiments: run it when one has been recorded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import alexnet
import between_nodes
import cis_window
import context_switches
import cpu_usage
import deepio
import fanstore
import graph_analysis_cost
import gs_interval
import lmdbio
import many_cores
import networks
import pytorch_ddp
import scaling
import step_breakdown
import summit
import tensorflow_io
import tf_cnn_benchmarks
from study import PICTURE, RESULTS, Study, here, read

from horovod_lab.bench.training.scaling_pictures import tables
from horovod_lab.measuring.present import markdown_table

README = Path(__file__).with_name("README.md")
# Every figure and table of the sources: what it shows and, where no study repeats it, why.
FIGURES = Path(__file__).with_name("figures.json")
SIMULATED = "summit"
# In the order of the source; the last four have others.
STUDIES = tuple(module.STUDY for module in (
    lmdbio, scaling, pytorch_ddp, many_cores, between_nodes, step_breakdown, cpu_usage,
    context_switches, gs_interval, graph_analysis_cost, cis_window, networks,
    tf_cnn_benchmarks, summit, tensorflow_io, alexnet, deepio, fanstore))

HEAD = """\
# Experiments

Studies made with the tools of the package, one for each figure and table of the source that shows a
measurement: S. Pumma, *Scalability Analysis and Optimization for Large-Scale Deep Learning*,
Virginia Tech, 2019, Chapter 6; `lmdbio` has its Chapters 3 to 5. `off` is TensorFlow/Horovod there,
`gs`, `nbcs`, `scp`, `topo` and `topo+scp` are Horovod-GS, -NBCS, -SCP, -TOPO and SCP-TOPO.
`tensorflow_io` and `alexnet` have another source: S. W. D. Chien et al., *Characterizing
Deep-Learning I/O Workloads in TensorFlow*, PDSW-DISCS 2018. So has `deepio`, of which most is
measured nowhere: Y. Zhu et al., *Entropy-Aware I/O Pipelining for Large-Scale Deep Learning on
HPC Systems*, MASCOTS 2018. `fanstore` has Z. Zhang et al., *FanStore: Enabling Efficient and
Scalable I/O for Distributed Deep Learning*, 2018.

    make experiments                                  # the short ones
    make experiments EXPERIMENTS="networks summit"    # these
    .venv/bin/python experiments/scaling.py --help

Each leaves JSON files and pictures in `results/NAME/` and puts what it measured beside the source's
figure. The source trained on up to 24,576 GPUs of Summit, a GPU and seven cores for each rank. On
few cores that ranks share, expect the direction, not the size, to agree. Run nothing else
meanwhile. A script of a benchmark goes on where it was interrupted.

[Every figure and table of the sources](#every-figure-and-table) is listed at the end: repeated,
simulated, or not, and why. `python experiments/readme.py` writes this page.

What the source did not measure is elsewhere:

- one allreduce by its size, also over Intel's oneCCL: [bench-sizes.md](../docs/lab/bench-sizes.md)
- steps with sparse, bfloat16 and grouped tensors: [bench-steps.md](../docs/lab/bench-steps.md)
- several nodes, and a slow network: [bench-nodes.md](../docs/lab/bench-nodes.md)
- what the background thread costs where nothing is trained: [README](../README.md#measured)
- the input side beside others: [io-bench.md](../docs/lab/io-bench.md)
"""


def seconds(document: dict[str, Any]) -> float:
    """That the measurement took."""
    return {
        **dict.fromkeys(("bench", "nodes", "io-lmdb", "io-stream", "io-alexnet"), lambda: sum(
            job["job_seconds"] for job in document["measurements"])),
        "profile": lambda: document["job"]["seconds"],
        "simulation": lambda: document["cost"]["seconds"],
        **dict.fromkeys(("traversal", "cis-window", "deepio", "fanstore"),
                        lambda: document["seconds"]),
    }[document["kind"]]()


def duration(total: float) -> str:
    return f"{total:.0f} s" if total < 120 else f"{total / 60:.0f} min"


def page(results: Path = RESULTS) -> str:
    recordings = {study.name: recorded(study, results) for study in STUDIES}
    return "\n".join([HEAD, *index(recordings), "", *(line for study in STUDIES for line in section(
        study, recordings[study.name], results / study.name)), *figures()])


def figures() -> Iterator[str]:
    """The section that lists them."""
    document = json.loads(FIGURES.read_text())
    yield from ["## Every figure and table", "",
                "*Simulated*: by [summit](#summit), for as many ranks as the source had. What is "
                "not repeated is", "",
                *(f"- *{word}*: {reason}" for word, reason in document["reasons"].items()), ""]
    for source in document["sources"]:
        studies = studies_of(source["author"])
        rows = [(figure, shows, how(studies.get(figure, []), reason))
                for figure, (shows, reason) in source["figures"].items()]
        yield from [f"{source['title']}:", "", *markdown_table(("", "shows", "here"), rows), ""]


def how(studies: Sequence[str], reason: str) -> str:
    """What became of a figure: the studies that repeat it, or in a word why none does."""
    measured = [f"[{name}](#{name})" for name in studies if name != SIMULATED]
    parts = ["repeated: " + ", ".join(measured)] if measured else []
    if SIMULATED in studies:
        parts.append("simulated")
    return "; ".join(parts) if parts else f"not: {reason}"


def studies_of(author: str) -> Mapping[str, list[str]]:
    """By figure or table of this author's: the studies that repeat it."""
    by_figure: dict[str, list[str]] = {}
    for study in STUDIES:
        repeats = "; ".join(study.repeats)
        named = re.search(r"of (\w+) et al\.", repeats)
        if (named[1] if named else "Pumma") == author:
            for figure in repeated(repeats):
                by_figure.setdefault(figure, []).append(study.name)
    return by_figure


def repeated(text: str) -> Iterator[str]:
    """The figures and tables that "Figures 6.5 to 6.7, pp. 120 to 122; Table 6.1" names."""
    for part in text.split("; "):
        numbers = re.match(r"(Figure|Table)s? ((?:[\d.]+(?:, | and | to )?)+)(?=,| |$)", part)
        if not numbers:
            continue  # a chapter
        kind, words = numbers.groups()
        for first, last in re.findall(r"(\d[\d.]*)(?: to (\d[\d.]*))?", words):
            chapter, _, number = first.rpartition(".")
            end = int((last or first).rpartition(".")[2])
            for one in range(int(number), end + 1):
                yield f"{kind} {chapter}{'.' * bool(chapter)}{one}"


def recorded(study: Study, results: Path) -> list[dict[str, Any]]:
    """The documents of a study that was completed; none otherwise."""
    folder = results / study.name
    return read(folder) if (folder / f"{PICTURE}.png").exists() else []


def index(recordings: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = [(f"[{study.name}.py](#{study.name})", "; ".join(study.repeats),
             "yes" if study.short else "",
             duration(sum(map(seconds, recordings[study.name]))) if recordings[study.name]
             else "not recorded") for study in STUDIES]
    return markdown_table(("experiment", "repeats", "in `make experiments`", "took"), rows)


def section(study: Study, documents: Sequence[dict[str, Any]], folder: Path) -> list[str]:
    command = " ".join((".venv/bin/python", f"experiments/{study.name}.py", *study.needs))
    lines = [f"## {study.name}", "", f"{study.title} Repeats {'; '.join(study.repeats)}.", "",
             study.description, "", f"    {command}", ""]
    if not documents:
        return [*lines, "Not recorded yet.", ""]
    about = documents[0]["machine"]
    days = dict.fromkeys(datetime.fromisoformat(document["started"]).date().isoformat()
                         for document in documents)
    lines += [f"Recorded on {', '.join(days)} on {about['cpu']}, {about['cores']} cores, Linux "
              f"{about['kernel']}, in {duration(sum(map(seconds, documents)))}:", "",
              *(f"    {document['command']}" for document in documents), "",
              *markdown_table(("", "source", "where", "here", "at"), [
                  (beside.reported.label, beside.reported.text(), beside.reported.where,
                   here(beside), beside.at)
                  for beside in study.compare(documents)]), "", *tables_of_training(documents)]
    pictures = sorted(folder.rglob("*.png"), key=lambda path: (path.stem != PICTURE, path.name))
    return [*lines, *(line for path in pictures for line in (
        f"![{study.title} {path.stem.replace('-', ' ')}]"
        f"({Path(os.path.relpath(path, README.parent)).as_posix()})", ""))]


def tables_of_training(documents: Sequence[dict[str, Any]]) -> list[str]:
    """What benchmarks of training, and of orders, measured, whole; their notes once, behind the
    tables."""
    of_kind = {"bench": tables, "deepio": lambda document: deepio.section(document).grids,
               "fanstore": lambda document: fanstore.section(document).grids}
    grids = [grid for document in documents if document["kind"] in of_kind
             for grid in of_kind[document["kind"]](document)]
    notes = dict.fromkeys(grid.note for grid in grids)
    return [*(line for grid in grids
              for line in (grid.title, "", *markdown_table(grid.columns, grid.rows), "")),
            *(line for note in notes for line in (note, ""))]


if __name__ == "__main__":
    README.write_text(page())
