"""One rank of torch.distributed, with both backends in one job by turns: an allreduce of each size,
DistributedDataParallel, idling. Rank 0 prints one line of JSON."""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch_models import NETWORKS

LIMIT = "no communication"
BLOCK_SECONDS, LEAST_BLOCKS = 0.03, 5
IDLE_SECONDS, STEPS = 3.0, 5
PIXELS, BATCH = 96, 4


class Rank:
    def __init__(self, options: argparse.Namespace):
        self.rank, self.ranks = options.rank, options.ranks
        dist.init_process_group("hvdopt", init_method=f"file://{options.store}", rank=self.rank,
                                world_size=self.ranks)

    def idle_percent(self) -> float:
        """Of a core, for a process that waits for its next call."""
        dist.barrier()
        start = time.process_time()
        time.sleep(IDLE_SECONDS)
        return 100 * (time.process_time() - start) / IDLE_SECONDS

    def slowest(self, seconds: float) -> float:
        value = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return value.item()

    def time_block(self, call: Callable[[], object], calls: int) -> float:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return self.slowest(time.perf_counter() - start) / calls

    def by_turns(self, series: dict[str, Callable[[], object]], seconds: float,
                 calls: int | None = None) -> dict[str, float]:
        """Seconds of a call, medians of blocks; ranks decide alike when to end."""
        of_block = {name: calls or max(3, int(BLOCK_SECONDS / self.time_block(call, 3)))
                    for name, call in series.items()}
        blocks = {name: [] for name in series}
        end = time.monotonic() + seconds
        while self.slowest(end - time.monotonic()) > 0 or (
                len(next(iter(blocks.values()))) < LEAST_BLOCKS):
            for name, call in series.items():
                blocks[name].append(self.time_block(call, of_block[name]))
        return {name: statistics.median(times) for name, times in blocks.items()}


def train(rank: Rank, groups: dict[str, dist.ProcessGroup], seconds: float) -> dict[str, float]:
    """Images of all ranks by second."""
    images = torch.rand(BATCH, 3, PIXELS, PIXELS,
                        generator=torch.Generator().manual_seed(rank.rank))
    labels, models, steps = torch.arange(BATCH), {}, {}
    for name, group in {**groups, LIMIT: None}.items():
        torch.manual_seed(0)
        model = NETWORKS["ResNet50"]()
        if group is not None:
            model = nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

        def step(model=model, optimizer=optimizer) -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

        models[name], steps[name] = model, step
        step()
    times = rank.by_turns(steps, seconds, STEPS)
    digests = {name: hashlib.sha256(b"".join(
        value.detach().numpy().tobytes() for value in models[name].parameters())).hexdigest()
        for name in groups}
    everywhere = [None] * rank.ranks
    dist.all_gather_object(everywhere, digests)
    for name in groups:
        if len({one[name] for one in everywhere}) > 1:
            raise SystemExit(f"{name}: ranks have different weights after the training")
    if rank.ranks == 2 and len(set(digests.values())) > 1:
        raise SystemExit("the backends lead to different weights")
    return {name: rank.ranks * BATCH / seconds for name, seconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in {"store": str, "rank": int, "ranks": int, "seconds": float}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--bytes", type=int, nargs="+", required=True)
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rank = Rank(options)
    metrics = {"idle_percent": rank.slowest(rank.idle_percent())}
    groups = {"hvdopt": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    seconds = options.seconds / (2 if options.train else 1) / len(options.bytes)
    of_sizes = {}
    for size in options.bytes:
        tensor = torch.ones(size // 4)
        calls = {name: lambda group=group, tensor=tensor: dist.all_reduce(tensor, group=group)
                 for name, group in groups.items()}
        of_sizes[size] = rank.by_turns(calls, seconds)
    metrics["microseconds"] = {name: {size: 1e6 * times[name] for size, times in of_sizes.items()}
                               for name in groups}
    if options.train:
        metrics["images_per_second"] = train(rank, groups, options.seconds / 2)
    if rank.rank == 0:
        print(json.dumps({"workload": "c10d", "metrics": metrics}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
