"""How a network trains on data that is sorted by class, by the order in which ranks get it.

Eight ranks on four nodes, 32 samples a rank and step, train a network of three layers for two
epochs on 64,000 samples of 100 classes, which lie one class after the other, as in a folder of
classes. Samples are the class's centre and noise. Ranks average gradients; with batch normalization
each normalizes by its own batch. The accuracy, on other samples, is that of rank 0's network, which
a checkpoint has.

Orders: a permutation of all samples for each epoch; horovod_opt.io's (`hio`), by default, for
samples of 110 KB in a folder and in records, and for small records of 3 KB with all ranks on one
node, beside the orders of records by its rules of version 1; MosaicML Streaming's `py1e`;
tf.data's, each rank's TFRecord files in a random order, four at a time, through a buffer of 1,000
samples; WebDataset's, each rank's tars in a random order through such a buffer; the data's own.
Those of other pipelines are simulated, with files of 1,000 samples, MosaicML's of 64 MiB. Its block
of 262,144 samples holds all that a node has in an epoch; larger data would be shuffled less.

Besides, `hio` with deal="job" and windows of all the data, of half and of a quarter of it (R); four
nodes that never exchange what they have, each of which shuffles its quarter; and the source's
groups of 4, 16 and 256 neighbours that stay together.

Windows of `hio` hold 1.5 GiB: less than a quarter of the samples of 110 KB, and all of the small
ones. Without batch normalization it does not matter which rank has which sample of a step, so that
what `hio, records` loses, as much as by the rules of version 1, is due to windows.

Relative entropy is 100 % for a complete shuffle and 0 for a known order, found for all orders in
the same way (`horovod_opt/io/order/relative_entropy.py`): of what all ranks get, step after step,
and of what the rank with the least of it gets. The source's own measure, by which groups of 4 have
73 %, is of groups alone. Its opportunistic order, of samples that happen to be loaded, is not
built: windows ask no more of storage, and their order can be repeated.

The source trained AlexNet, with all of the data, half and a quarter of it in memory at a time.

Figures 10 to 12 of the source have no numbers that are known here, so ours stand alone (`--reads`):
how much one, two and four nodes read in a second, a rank on each, by pipeline, and where the time
goes. 4,096 records of 32 KiB are on a simulated parallel file system of 40 MiB/s in all, which
takes 1 ms for a request and 2 ms to go back in a file; a node may hold half of the data. `hio,
kept, ordered` has cache= of 0.6 of that, so one node keeps 0.3 of the data, two 0.6 and four all,
and order="ordered". Data is cold at first; the others are as in the benchmark of input pipelines
(docs/lab/io-bench.md), where tf.data reads files in a random order through a buffer, and DataLoader
records of an LMDB in any order.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from study import Study, record

from graph_analysis.palette import BLUE, COLOURS, GREY
from horovod_lab.io.peers.orders import BATCH, ORDERS, RANKS, Shares
from horovod_lab.io.testbeds import reading_nodes
from horovod_lab.measuring import documents
from horovod_lab.measuring.literature import GROUP_RL, WINDOWED_ACCURACY
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.report.source import Beside
from horovod_opt.arguments import positive
from horovod_opt.io.order.rank_view import look, rank_rl
from horovod_opt.io.order.relative_entropy import rl_paper

FILE = "deepio"
EPOCHS, CLASSES, FEATURES, HIDDEN, TEST = 2, 100, 64, 128, 10_000
SPREAD = 0.5  # of the classes' centres, beside 1 of their samples
RATE, MOMENTUM = 0.05, 0.9
NETWORKS = {"with": True, "without": False}  # batch normalization
# Orders beside the source's, by the part of the data that is in memory at a time, about.
COMPARED = {"hio, folder": 0.25, "hio, records": 0.25,
            **{f"hio, dealt to the job, R = {part}": part for part in WINDOWED_ACCURACY}}
SOURCES_SAMPLES = 10_000  # with which its figures fit; it does not give their number


class Trainings:
    passes_on = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--samples", type=positive, default=64_000, metavar="N",
                            help="(%(default)s)")
        parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="(%(default)s)")
        parser.add_argument("--reads", action="store_true",
                            help="measure what nodes read, as root, and keep the trainings that "
                            "were recorded before")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        path = folder / f"{FILE}.json"
        if options.reads:
            return add_reads(path)
        document = documents.new(FILE, ["python", "experiments/deepio.py"])
        document |= {"samples": options.samples, "ranks": RANKS, "batch": BATCH,
                     "epochs": EPOCHS, "orders": []}

        def train(console: Console) -> None:
            for name in ORDERS:
                row = measure(name, options.samples, options.seeds)
                document["orders"].append(row)
                console.print(f"{name}: {show_percent(row['accuracy']['with'])} % with batch "
                              f"normalization, {show_percent(row['accuracy']['without'])} % "
                              "without")

        return record(train, document, path, section)


def add_reads(path: Path) -> int:
    """To the document of trainings."""
    document = documents.load(path, FILE)

    def measure_reads(console: Console) -> None:
        reads = []
        for row in reading_nodes.measure():
            reads.append(row)
            console.print(f"{row['pipeline']}: {row.get('absence') or row['nodes']}")
        document.update(reads=reads, reads_started=documents.now())

    return record(measure_reads, document, path, section, "reads_seconds",
                  "what was recorded is kept")


def measure(name: str, samples: int, seeds: int) -> dict[str, Any]:
    """Accuracies by seed; relative entropy of what all ranks get, and of what the rank with the
    least gets; and the part of the classes of independent draws in a rank's batch."""
    row: dict[str, Any] = {"order": name, "accuracy": {network: [] for network in NETWORKS}}
    labels = np.arange(samples) * CLASSES // samples
    for seed in range(seeds):
        epochs = [ORDERS[name](samples, seed, epoch) for epoch in range(EPOCHS)]
        streams = [epochs[0][:, rank].ravel() for rank in range(RANKS)]
        view = look(streams, [[BATCH] * len(epochs[0])] * RANKS, labels)
        row |= {"classes": view.part, "rank_rl": view.rl, "rl": rank_rl(epochs[0].ravel())}
        for network, has_norm in NETWORKS.items():
            row["accuracy"][network].append(train(labels, epochs, seed, has_norm))
    return row


def train(labels: np.ndarray, epochs: Sequence[Shares], seed: int, has_norm: bool) -> float:
    """All ranks at once: their weights are equal, so they are the first dimension of the input."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    centres = SPREAD * torch.randn(CLASSES, FEATURES)
    answers = torch.from_numpy(labels)
    inputs = centres[answers] + torch.randn(len(labels), FEATURES)
    test_answers = torch.randint(CLASSES, (TEST,))
    test = centres[test_answers] + torch.randn(TEST, FEATURES)
    sizes = [FEATURES, HIDDEN, HIDDEN, CLASSES]
    layers = [torch.nn.Linear(*size) for size in zip(sizes, sizes[1:])]
    norms = [Normalization() for _ in layers[1:]] if has_norm else []
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, RATE, MOMENTUM)

    def forward(values: torch.Tensor, is_training: bool) -> torch.Tensor:
        for number, layer in enumerate(layers):
            values = layer(values)
            if number < len(norms):
                values = norms[number](values, is_training)
            if number < len(layers) - 1:
                values = torch.relu(values)
        return values

    for shares in epochs:
        for batch in torch.from_numpy(shares):
            outputs = forward(inputs[batch], True)
            loss = torch.nn.functional.cross_entropy(outputs.flatten(0, 1),
                                                     answers[batch].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        right = forward(test, False).argmax(1) == test_answers
    return float(right.float().mean())


class Normalization:
    """Of each rank's batch by itself; rank 0's running mean and variance, as PyTorch keeps them.
    Neither weight nor bias: the layer behind it has them."""

    def __init__(self) -> None:
        self._mean: Any = 0.0
        self._variance: Any = 1.0

    def __call__(self, values: Any, is_training: bool) -> Any:
        if not is_training:
            return (values - self._mean) / (self._variance + 1e-5)**0.5
        mean = values.mean(1, keepdim=True)
        variance = values.var(1, unbiased=False, keepdim=True)
        self._mean = 0.9 * self._mean + 0.1 * mean[0].detach()
        self._variance = 0.9 * self._variance + 0.1 * variance[0].detach()
        return (values - mean) / (variance + 1e-5)**0.5


def show_percent(values: Sequence[float]) -> str:
    """Mean, smallest to largest."""
    return (f"{100 * statistics.fmean(values):.1f} ({100 * min(values):.1f} to "
            f"{100 * max(values):.1f})")


def section(document: dict[str, Any]) -> Section:
    rows = [(row["order"], *(f"{100 * row[name]:.0f}" for name in ("rl", "rank_rl", "classes")),
             *(show_percent(row["accuracy"][network]) for network in NETWORKS))
            for row in document["orders"]]
    seeds = len(document["orders"][0]["accuracy"]["with"])
    reads = document.get("reads", [])
    return Section(STUDY.title, STUDY.description, [Grid(
        "Accuracy by order", (
            "order", "relative entropy, %", "of what a rank gets, %",
            "classes in a rank's batch, % of independent draws", "with batch normalization, %",
            "without, %"), rows,
        f"Means of {seeds} seeds, smallest to largest."), *([reads_grid(reads)] if reads else [])],
        [picture(document), *([reads_picture(reads)] if reads else [])])


def rate(row: dict[str, Any]) -> float:
    """MB that all nodes take in a second of the epochs behind the first."""
    later = row["epochs"][1:]
    data = reading_nodes.RECORDS.count * reading_nodes.RECORDS.size
    return data * len(later) / sum(epoch["seconds"] for epoch in later) / 1e6


def reads_grid(reads: Sequence[dict[str, Any]]) -> Grid:
    rows = []
    for row in reads:
        if "absence" in row:
            rows.append((row["pipeline"], *("",) * 7, f"not measured: {row['absence']}"))
            continue
        last = row["epochs"][-1]
        data = reading_nodes.RECORDS.count * reading_nodes.RECORDS.size
        rows.append((row["pipeline"], str(row["nodes"]), f"{row['first_batch_seconds']:.1f}",
                     f"{row['epochs'][0]['seconds']:.1f}", f"{rate(row):.0f}",
                     f"{last['bytes'] / data:.2f}", f"{reading_nodes.storage_seconds(last):.1f}",
                     f"{last['cpu_seconds']:.1f}", f"{row['load']:.0f}"))
    return Grid("What nodes read", (
        "pipeline", "nodes", "first batch, s", "first epoch, s", "later epochs, MB/s of all nodes",
        "from storage in the last, times the data", "storage at work in it, s",
        "processor time of ranks in it, s", "load of the machine before"), rows,
        "The first batch counts from when ranks begin to open the data. One job each.")


def reads_picture(reads: Sequence[dict[str, Any]]) -> Picture:
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axis = figure.subplots()
    for number, name in enumerate(dict.fromkeys(row["pipeline"] for row in reads
                                                if "absence" not in row)):
        rows = [row for row in reads if row["pipeline"] == name]
        axis.plot([row["nodes"] for row in rows], [rate(row) for row in rows], "o-",
                  color=COLOURS[number], label=name)
    axis.set(xlabel="nodes", ylabel="MB/s of all nodes", yscale="log")
    axis.set_xticks(reading_nodes.NODES, list(map(str, reading_nodes.NODES)))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return Picture(f"{FILE}-reads", STUDY.title, "What nodes take in a second of the epochs behind "
                   "the first, by pipeline.", figure)


def picture(document: dict[str, Any]) -> Picture:
    rows = document["orders"]
    figure = Figure(figsize=(8.0, 1.4 + 0.4 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for colour, offset, network in zip((BLUE, GREY), (-0.12, 0.12), NETWORKS):
        means = [100 * statistics.fmean(row["accuracy"][network]) for row in rows]
        places = [place + offset for place in range(len(rows))]
        axis.plot(means, places, "o", color=colour, label=f"{network} batch normalization")
        for place, row in zip(places, rows):
            values = [100 * value for value in row["accuracy"][network]]
            axis.plot([min(values), max(values)], [place, place], color=colour)
    axis.set(xlim=(0, None), xlabel="accuracy of rank 0's network, %")
    axis.set_yticks(range(len(rows)), [row["order"] for row in rows])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return Picture(FILE, STUDY.title, "Dots are means of the seeds, lines reach from the smallest "
                   "to the largest.", figure)


def compare(found: Sequence[dict[str, Any]]) -> list[Beside]:
    return [*(Beside(reported, rl_paper(SOURCES_SAMPLES, size), f"{SOURCES_SAMPLES} samples",
                     fitted=True) for size, reported in GROUP_RL.items()), *losses(found)]


def losses(found: Sequence[dict[str, Any]]) -> Iterator[Beside]:
    """Of accuracy, to a full shuffle."""
    for document in found:
        accuracy = {row["order"]: row["accuracy"] for row in document["orders"]}
        for name, part in COMPARED.items():
            for network in NETWORKS:
                yield Beside(WINDOWED_ACCURACY[part], statistics.fmean(
                    accuracy["full shuffle"][network]) - statistics.fmean(accuracy[name][network]),
                    f"{name}, {network} batch normalization")


STUDY = Study(name=FILE, text=__doc__, repeats=(
    "Figures 7, 8 and 10 to 12 of Zhu et al. 2018",),
              measurement=Trainings(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
