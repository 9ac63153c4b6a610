"""The command `horovod-opt io order`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from horovod_opt.arguments import positive
from horovod_opt.io.commands.exit_status import exit_status
from horovod_opt.io.commands.index_command import PATTERN, data_pattern
from horovod_opt.io.progress import show_bar

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from horovod_opt.io.job.room import Room
    from horovod_opt.io.kept.forecast import CacheForecast
    from horovod_opt.io.node_reads import NodeReads
    from horovod_opt.io.order.batches import Batches
    from horovod_opt.io.order.order import Order

NAME = "horovod-opt io order"
MOST_MEASURED = 20_000_000  # samples, in about ten seconds


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "order", help="show which node reads what when, how well samples are shuffled, and the "
        "memory that it takes",
        description="Shows the order in which a job would read a data set in one epoch: for each "
        "node the shards and chunks that it reads, bytes that more than one node reads, and the "
        "memory that it needs at once; and the order's relative entropy, 100 % for a complete "
        "shuffle, over all ranks and of what each rank sees, with the classes in a rank's batch. "
        "Exit status 1 if the data cannot be used, 2 if the values cannot.")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help=PATTERN)
    parser.add_argument("--samples", type=positive, metavar="N",
                        help="in place of a pattern: a data set of so many samples")
    parser.add_argument("--sample-bytes", type=positive, metavar="BYTES", default=110_000,
                        help="size of each of --samples (%(default)s)")
    parser.add_argument("--files", action="store_true",
                        help="each of --samples is a file, in a folder")
    parser.add_argument("--index", type=Path, metavar="FILE", help="where the index is kept")
    parser.add_argument("--ranks", type=positive, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--nodes", type=positive, default=1, metavar="N",
                        help="that the ranks are on, neighbours together (%(default)s)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--batch-size", type=positive, metavar="N", help="of a rank (64)")
    size.add_argument("--global-batch-size", type=positive, metavar="N", help="of all ranks")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(%(default)s)")
    parser.add_argument("--epoch", type=int, default=0, metavar="N", help="(%(default)s)")
    parser.add_argument("--shards", type=positive, metavar="N",
                        help="(a power of two up to 64, by the data's size)")
    parser.add_argument("--window", type=positive, metavar="CHUNKS",
                        help="chunks of a shard that are shuffled together (what 1.5 GiB, or the "
                        "--memory of all nodes, hold in all shards together)")
    parser.add_argument("--memory", metavar="SIZE", help="of each node's reader, such as 2GiB")
    parser.add_argument("--cache", metavar="SIZE",
                        help="what each node keeps of what it has read, such as 24GiB: show what "
                        "that saves")
    parser.add_argument("--deal", choices=("node", "job"), default="node",
                        help="to whose ranks a step's samples are dealt (%(default)s)")
    parser.add_argument("--order", choices=("window", "ordered"), default="window", dest="kind",
                        help="what is permuted together: windows of chunks, or all samples "
                        "(%(default)s)")
    parser.add_argument("--no-shuffle", action="store_false", dest="shuffle",
                        help="in the data set's own order")
    parser.add_argument("--svg", type=Path, metavar="FILE",
                        help="draw when each node needs which chunk: .svg, .png or .pdf")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rich.console import Console

    return exit_status(NAME, lambda: _show(options, Console(highlight=False)))


def _show(options: argparse.Namespace, console: Console) -> int:
    from rich.console import Console

    from horovod_opt.io.errors import InputError
    from horovod_opt.io.job.room import neighbours
    from horovod_opt.io.kept.forecast import foresee, foresee_parcels
    from horovod_opt.io.memory_limit import parse
    from horovod_opt.io.node_reader.layout import chunk_bytes
    from horovod_opt.io.node_reads import chunks_for_node, node_reads
    from horovod_opt.io.order.batches import Batches

    if options.nodes > options.ranks:
        raise InputError(f"--nodes {options.nodes} is more than --ranks {options.ranks}; remedy: "
                         "give at least one rank to each node")
    memory = None if options.memory is None else parse(options.memory)
    cache = None if options.cache is None else parse(options.cache, "cache")
    room = neighbours(options.ranks, options.nodes, memory)
    is_ordered = options.kind == "ordered"
    if is_ordered and not (options.shuffle and options.shards is options.window is options.svg
                           is None):
        raise InputError("--order ordered has one window of all samples, and no chunks to draw; "
                         "remedy: leave --shards, --window, --no-shuffle and --svg out")
    deals_job = is_ordered or options.deal == "job" and options.shuffle
    by_node = room.nodes
    if deals_job:  # each node holds what all ranks take of
        room = room._replace(nodes=(tuple(range(options.ranks)),))
    order, index, data_bytes = _order(options, room)
    per_rank = None if options.global_batch_size else options.batch_size or 64
    batches = Batches(order, options.ranks, per_rank, options.global_batch_size)
    order = chunks_for_node(order, batches, range(options.ranks // options.nodes),
                            data_bytes / order.samples)
    with Console(stderr=True).status("Looking at each sample ..."):
        sizes = chunk_bytes(index, order.chunk_samples)
        nodes = [] if is_ordered else node_reads(
            order, batches, options.epoch, options.nodes, index, sizes, deals_job)
        lines = [_entropy(order, options.epoch),
                 *_what_ranks_see(order, batches, options.epoch, room.nodes, index)]
        forecast = None
        if cache is not None and is_ordered:
            forecast = foresee_parcels(order, batches, options.epoch, by_node, cache, index, sizes)
        elif cache is not None:
            forecast = foresee(order, batches, options.epoch, by_node, cache, index, sizes,
                               deals_job)
    _print_order(console, order, batches, int(sizes.sum()), lines)
    if is_ordered:
        _print_parcels(console, batches, by_node, index)
    else:
        _print_nodes(console, order, nodes)
    again = data_bytes if is_ordered else sum(node.bytes for node in nodes)
    _print_cache(console, options.nodes, again, sizes, forecast)
    if options.svg:
        _draw(options, order, nodes)
    return 0


def _order(options: argparse.Namespace, room: Room) -> tuple[Order, Any, int]:
    """The order, the index, and the bytes of all samples."""
    from horovod_opt.io.errors import InputError
    from horovod_opt.io.formats import FOLDER
    from horovod_opt.io.node_reader.layout import estimate_chunk_bytes
    from horovod_opt.io.order.choice import DataSize, Given, choose, one_window

    if bool(options.patterns) == bool(options.samples):
        raise InputError("give either a PATTERN or --samples")
    index = _index(options) if options.patterns else None
    samples = index.samples if index else options.samples
    data_bytes = int(index.size.sum()) if index else samples * options.sample_bytes
    identity = {"identity": index.digest} if index else {}
    are_files = index.format == FOLDER if index else options.files
    index = index or _equal(options)
    size = DataSize(samples, data_bytes, are_files,
                    lambda chunk_samples: estimate_chunk_bytes(index, chunk_samples))
    if options.kind == "ordered":
        return one_window(size, None, options.seed, **identity), index, data_bytes
    choice = choose(size, Given(None, options.shards, options.window), room, options.seed,
                    shuffle=options.shuffle, **identity)
    return choice.order, index, data_bytes


def _equal(options: argparse.Namespace) -> Any:
    """What would be the index of so many samples of one size, one after the other in a file."""
    from types import SimpleNamespace

    import numpy as np

    shape = (options.samples, 1)
    return SimpleNamespace(
        label=None, file=np.broadcast_to(np.int32(0), shape),
        offset=(np.arange(options.samples) * options.sample_bytes).reshape(shape),
        size=np.broadcast_to(np.int64(options.sample_bytes), shape))


def _index(options: argparse.Namespace):
    from horovod_opt.io import index as indexes

    pattern = data_pattern(options)
    try:
        return indexes.load(pattern, options.index)
    except indexes.Missing:
        with show_bar("Indexing") as progress:
            return indexes.build(pattern, progress=progress, place=options.index)


def _entropy(order: Order, epoch: int) -> str:
    import numpy as np

    from horovod_opt.io.order.relative_entropy import measure_rl
    from horovod_opt.io.order.window_size import expected_rl

    if order.samples <= MOST_MEASURED:
        stream = order.at(epoch, np.arange(order.samples))
        return f"Relative entropy: {measure_rl(stream, order.samples):.1%} measured"
    if not order.shuffle:
        return "Relative entropy: 0 %"
    entropy = expected_rl(order.samples, order.chunk_samples, order.shards, order.window)
    return f"Relative entropy: {entropy:.1%} expected"


def _what_ranks_see(order: Order, batches: Batches, epoch: int, nodes: Sequence[Sequence[int]],
                    index: Any) -> Iterator[str]:
    from horovod_opt.io.order.rank_view import glance, look_at_order, runs_of

    labels = runs_of(order.samples) if index.label is None else index.label
    of_what = (f"runs of {order.samples // int(labels[-1] + 1)} samples, as if each was a class"
               if index.label is None else "classes")
    if order.samples <= MOST_MEASURED:
        view = look_at_order(order, batches, epoch, nodes, labels)
        yield f"Relative entropy of what a rank sees: {view.rl:.1%} measured, at least"
    else:
        view = glance(order, batches.ranks, max(batches.size(0, batches.ranks - 1), 1), nodes,
                      labels)
    if view is not None:
        yield (f"Distinct {of_what}, in a rank's batch: {view.classes:.1f}, of independent draws "
               f"{view.independent:.1f}: {view.part:.2f}")


def _print_order(console: Console, order: Order, batches: Batches, data_bytes: int,
                 lines: Sequence[str]) -> None:
    from rich.filesize import decimal

    from horovod_opt.io.order.window_size import RL_TARGET, window_for

    console.print(
        f"{order.samples} samples, {decimal(data_bytes)}, in {order.chunks} chunks of "
        f"{order.chunk_samples}; shards {order.shards}, window {order.window}\n"
        f"{batches.steps} steps, global batch {batches.global_batch_size}", *lines, sep="\n")
    if order.shuffle:
        window = window_for(RL_TARGET, order.samples, order.chunk_samples, order.shards)
        share = min(1, window * order.shards / order.chunks)
        size = decimal(int(share * data_bytes))
        console.print(f"For {RL_TARGET:.0%}: window {window}, which holds {size} ({share:.0%} of "
                      "the data) in all nodes together")


def _print_nodes(console: Console, order: Order, nodes: Sequence[NodeReads]) -> None:
    from rich.filesize import decimal
    from rich.table import Table

    table = Table("node", "ranks", "shards", "chunks", "read", "also read by a node before",
                  "needed at once", "enough in any epoch")
    for number, node in enumerate(nodes):
        table.add_row(str(number), _runs(node.ranks), _runs(node.shards),
                      str(len(node.loads.chunk)), decimal(node.bytes), decimal(node.again),
                      decimal(int(node.live.max(initial=0))), decimal(node.enough))
    console.print(table)
    again, total = sum(node.again for node in nodes), sum(node.bytes for node in nodes)
    console.print(f"Read in all: {decimal(total)}, of which {decimal(again)} by more than one node")


def _print_parcels(console: Console, batches: Batches, nodes: Sequence[Sequence[int]],
                   index: Any) -> None:
    from rich.filesize import decimal

    from horovod_opt.io.job.groups import Shares
    from horovod_opt.io.node_reader.parcel_reads import ParcelRoom

    room = max(ParcelRoom.of(index, [batches], Shares(batches.ranks, ranks[0], tuple(ranks),
                                                      tuple(range(batches.ranks)))).at_once
               for ranks in nodes)
    console.print(f"A node needs at most {decimal(room)} at once, for the samples of its ranks")


def _print_cache(console: Console, nodes: int, again: int, sizes: np.ndarray,
                 forecast: Optional[CacheForecast]) -> None:
    from rich.filesize import decimal

    from horovod_opt.io.kept.forecast import enough_to_keep_all

    if forecast is None:
        enough = enough_to_keep_all(sizes, nodes)
        console.print(f"Read again in each later epoch: {decimal(again)}, nothing with --cache "
                      f"{enough} ({decimal(enough)} of each node)")
        return
    console.print(f"Kept by all nodes: {decimal(forecast.kept)} of {decimal(int(sizes.sum()))}")
    for when, traffic in (("this", forecast.first), ("each later", forecast.later)):
        console.print(f"In {when} epoch: {decimal(traffic.storage)} from storage, "
                      f"{decimal(traffic.network)} from other nodes")


def _runs(numbers: Sequence[int]) -> str:
    """0-3, 7"""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _draw(options: argparse.Namespace, order: Order, nodes: Sequence[NodeReads]) -> None:
    from horovod_opt.io.errors import InputError

    try:
        from horovod_opt.io.commands import order_picture
    except ImportError as error:
        raise InputError(f"--svg {options.svg} needs matplotlib: {error}; remedy: pip install "
                         "matplotlib") from error
    try:
        order_picture.draw(order, options.epoch, nodes, options.svg)
    except (OSError, ValueError) as error:
        raise InputError(f"--svg {options.svg}: {error}; remedy: give a file that can be written, "
                         "named .svg, .png or .pdf") from error
    print(f"Written: {options.svg}")
