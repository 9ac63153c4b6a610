"""One rank: goes through the programs that the backend hvdopt has to get right, each in a group of
its own, and writes what it found, by name: "" for right."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

NUMBERS = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64)
OTHERS = (torch.bool, torch.int16, torch.complex64)
SIZES = (0, 1, 7, 1000, 200_003)
PROGRAMS: dict[str, Callable] = {}


def program(function: Callable) -> Callable:
    PROGRAMS[function.__name__] = function
    return function


class Rank:
    """Of one group."""

    def __init__(self, group, rank: int, ranks: int):
        self.group, self.rank, self.ranks = group, rank, ranks

    def values(self, dtype: torch.dtype, size: int, rank: int | None = None) -> torch.Tensor:
        number = self.rank if rank is None else rank
        values = (torch.arange(size) * 7 + number * 3) % 5 + 1
        return (values % 2 == 0) if dtype == torch.bool else values.to(dtype)

    def all_values(self, dtype: torch.dtype, size: int) -> list[torch.Tensor]:
        return [self.values(dtype, size, rank) for rank in range(self.ranks)]


def equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.equal(found, expected), (found.flatten()[:5], expected.flatten()[:5])


def folded(tensors: list[torch.Tensor], operation) -> torch.Tensor:
    """((r0 + r1) + r2) ..., in the tensors' own type."""
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result = operation(result, tensor)
    return result


@program
def reductions(at: Rank) -> None:
    operations = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul,
                  dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
    for dtype in NUMBERS:
        for size in SIZES:
            for operation, plain in operations.items():
                tensor = at.values(dtype, size)
                dist.all_reduce(tensor, operation, group=at.group)
                equal(tensor, folded(at.all_values(dtype, size), plain))


@program
def averages(at: Rank) -> None:
    for dtype in (torch.float32, torch.float64):
        for size in SIZES:
            tensor = at.values(dtype, size)
            dist.all_reduce(tensor, dist.ReduceOp.AVG, group=at.group)
            total = folded(at.all_values(dtype, size), torch.add)
            torch.testing.assert_close(tensor, total / at.ranks)


@program
def layouts(at: Rank) -> None:
    for size in (12, 200_004):
        base = at.values(torch.float32, size)
        expected = folded(at.all_values(torch.float32, size), torch.add)
        views = [lambda x: x.view(3, -1).t(), lambda x: x.view(2, -1)[:, ::2],
                 lambda x: x.view(1, 3, 2, -1).to(memory_format=torch.channels_last)]
        for view in views:
            tensor = view(base.clone())
            dist.all_reduce(tensor, group=at.group)
            equal(tensor.contiguous(), view(expected).contiguous())
            copy = tensor if at.rank == 0 else torch.zeros_like(tensor).t() if (
                tensor.dim() == 2) else torch.zeros_like(tensor)
            if tensor.dim() != 2:
                dist.broadcast(copy, dist.get_global_rank(at.group, 0), group=at.group)
                equal(copy.contiguous(), view(expected).contiguous())


def negated(values: torch.Tensor) -> torch.Tensor:
    """A view that has these values, contiguous."""
    return torch._neg_view(-values)


def imaginary(values: torch.Tensor) -> torch.Tensor:
    """The same, not contiguous."""
    return torch.complex(torch.zeros_like(values), -values).conj().imag


@program
def negated_views(at: Rank) -> None:
    """What gloo gives, into views and from them."""
    root = dist.get_global_rank(at.group, 0)

    def gather(outputs, given, group):
        dist.gather(given, outputs if at.rank == 0 else None, root, group=group)
        return outputs if at.rank == 0 else []

    def all_to_all(outputs, given, group):
        one = torch.cat([outputs[0]] * at.ranks)
        dist.all_to_all_single(one, torch.cat([given] * at.ranks), group=group)
        return [one]

    def reduce(outputs, given, group):
        dist.reduce(given, root, group=group)
        return [given] if at.rank == 0 else []

    calls = [
        gather, all_to_all, reduce,
        lambda outputs, given, group: dist.all_reduce(given, group=group) or [given],
        lambda outputs, given, group: dist.broadcast(given, root, group=group) or [given],
        lambda outputs, given, group: dist.all_gather(outputs, given, group=group) or outputs,
        lambda outputs, given, group: dist.reduce_scatter(
            outputs[0], [given] * at.ranks, group=group) or outputs[:1]]
    kinds = (torch.clone, negated, imaginary)
    gloo = new_gloo_group()
    for size in (5, 100_000):
        values = at.values(torch.float32, size)
        for call in calls:
            for source in kinds:
                for target in kinds:
                    found, expected = (
                        call([target(torch.zeros(size)) for _ in range(at.ranks)], source(values),
                             group) for group in (at.group, gloo))
                    assert len(found) == len(expected)
                    for one, other in zip(found, expected):
                        equal(one, other)
    if on_one_host(at):  # gloo gathers no complex numbers
        outputs = [torch.zeros(5, dtype=torch.complex64).conj() for _ in range(at.ranks)]
        gather(outputs, torch.complex(values[:5], values[:5] + at.rank).conj(), at.group)
        for rank, output in enumerate(outputs if at.rank == 0 else []):
            of_rank = at.values(torch.float32, 5, rank)
            equal(output, torch.complex(of_rank, -of_rank - rank))


@program
def copies(at: Rank) -> None:
    for dtype in NUMBERS + OTHERS:
        for size in SIZES:
            everything = at.all_values(dtype, size)
            for root in {0, at.ranks - 1}:
                tensor = at.values(dtype, size)
                dist.broadcast(tensor, dist.get_global_rank(at.group, root), group=at.group)
                equal(tensor, everything[root])
            outputs = [torch.zeros(size, dtype=dtype) for _ in range(at.ranks)]
            dist.all_gather(outputs, at.values(dtype, size), group=at.group)
            for output, expected in zip(outputs, everything):
                equal(output, expected)
            whole = torch.zeros(at.ranks * size, dtype=dtype)
            whole[at.rank * size:(at.rank + 1) * size] = at.values(dtype, size)
            # The input may be its part of the output, as in FSDP.
            dist.all_gather_into_tensor(whole, whole[at.rank * size:(at.rank + 1) * size],
                                        group=at.group)
            equal(whole, torch.cat(everything))


@program
def scattered_sums(at: Rank) -> None:
    for dtype in NUMBERS:
        for size in SIZES:
            parts = at.all_values(dtype, size)
            expected = folded([parts[at.rank]] * at.ranks, torch.add)
            output = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter(output, parts, group=at.group)
            equal(output, expected)
            output = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter_tensor(output, torch.cat(parts), group=at.group)
            equal(output, expected)
            root, tensor = at.ranks - 1, at.values(dtype, size)
            dist.reduce(tensor, dist.get_global_rank(at.group, root), group=at.group)
            total = folded(at.all_values(dtype, size), torch.add)
            equal(tensor, total if at.rank == root else at.values(dtype, size))


def on_one_host(at: Rank) -> bool:
    return int(os.environ["HOROVOD_OPT_NODE_RANKS"]) == dist.get_world_size()


@program
def pieces(at: Rank) -> None:
    """Each rank's piece for rank r has r + 1 rows."""
    # gloo, which performs these between hosts, lacks some types.
    for dtype in NUMBERS + OTHERS if on_one_host(at) else (torch.int64, torch.float32):
        for size in (0, 3, 2000):
            def piece(source: int, target: int) -> torch.Tensor:
                values = at.values(dtype, (target + 1) * size, source * at.ranks + target)
                return values.view(target + 1, size)

            given = [piece(at.rank, target) for target in range(at.ranks)]
            wanted = [piece(source, at.rank) for source in range(at.ranks)]
            output = torch.zeros(at.ranks * (at.rank + 1), size, dtype=dtype)
            dist.all_to_all_single(output, torch.cat(given), [at.rank + 1] * at.ranks,
                                   list(range(1, at.ranks + 1)), group=at.group)
            equal(output, torch.cat(wanted))
            outputs = [torch.zeros_like(one) for one in wanted]
            if on_one_host(at):  # gloo has none with lists
                dist.all_to_all(outputs, given, group=at.group)
                for found, expected in zip(outputs, wanted):
                    equal(found, expected)
            everything = at.all_values(dtype, size)
            root = at.ranks - 1
            gathered = [torch.zeros(size, dtype=dtype) for _ in range(at.ranks)]
            is_root = at.rank == root
            dist.gather(at.values(dtype, size), gathered if is_root else None,
                        dist.get_global_rank(at.group, root), group=at.group)
            if is_root:
                for found, expected in zip(gathered, everything):
                    equal(found, expected)
            part = torch.zeros(size, dtype=dtype)
            dist.scatter(part, everything if is_root else None,
                         dist.get_global_rank(at.group, root), group=at.group)
            equal(part, at.values(dtype, size))
    large = torch.arange(at.ranks * 700_000, dtype=torch.int64).view(-1, at.ranks).t()
    output = torch.zeros(large.shape, dtype=torch.int64)
    given = large + at.rank
    dist.all_to_all_single(output, given if on_one_host(at) else given.contiguous(),
                           group=at.group)
    equal(output, torch.cat([large[at.rank:at.rank + 1] + source for source in range(at.ranks)]))


@program
def splits_that_do_not_fit(at: Rank) -> None:
    if not on_one_host(at):
        return  # gloo
    group = dist.new_group(timeout=timedelta(minutes=5))
    output, given = torch.zeros(at.ranks), torch.ones(at.ranks + (at.rank == 1))
    splits = [1] * (at.ranks - 1) + [1 + (at.rank == 1)]
    text = error_of(lambda: dist.all_to_all_single(output, given, None, splits, group=group))
    assert text.endswith(f"rank 1 has 8 bytes for rank {at.ranks - 1}, which expects 4; remedy: "
                         "splits that fit each other"), text
    assert (output == 0).all()


@program
def what_gloo_does(at: Rank) -> None:
    flags = torch.tensor([at.rank == 0, True])
    dist.all_reduce(flags, dist.ReduceOp.BAND, group=at.group)
    assert flags.tolist() == [at.ranks == 1, True]
    if at.rank == 0:
        dist.send(torch.ones(3), dist.get_global_rank(at.group, 1), group=at.group)
    if at.rank == 1:
        tensor = torch.zeros(3)
        dist.recv(tensor, dist.get_global_rank(at.group, 0), group=at.group)
        assert tensor.sum() == 3
    from horovod_opt.c10d.group import counts

    assert counts(at.group)["allreduce"] == (0, 1), counts(at.group)


@program
def objects(at: Rank) -> None:
    gathered = [None] * at.ranks
    dist.all_gather_object(gathered, {"rank": at.rank, "long": "x" * 100_000 * at.rank},
                           group=at.group)
    assert [one["rank"] for one in gathered] == list(range(at.ranks))
    dist.barrier(group=at.group)


@program
def futures(at: Rank) -> None:
    """Calls that nobody waits for by themselves, callbacks that make calls, polling."""
    for size in (4, 200_000):
        tensors = [torch.full((size,), float(number)) for number in range(100)]
        works = [dist.all_reduce(tensor, group=at.group, async_op=True) for tensor in tensors]
        works[-1].wait()
        for number, tensor in enumerate(tensors):
            assert (tensor == at.ranks * number).all()

        def again(future):
            tensor = torch.full((size,), 2.0)
            dist.all_reduce(tensor, group=at.group)
            return future.value()[0] + tensor

        work = dist.all_reduce(torch.ones(size), group=at.group, async_op=True)
        assert (work.get_future().then(again).wait() == 3 * at.ranks).all()
        work = dist.all_reduce(torch.ones(size), group=at.group, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        assert work.is_success() and work.result()[0].sum() == size * at.ranks


def new_gloo_group():
    """Also while HOROVOD_OPT_AS_GLOO=1."""
    setting = os.environ.pop("HOROVOD_OPT_AS_GLOO", "")
    group = dist.new_group(backend="gloo")
    os.environ["HOROVOD_OPT_AS_GLOO"] = setting
    assert isinstance(group._get_backend(torch.device("cpu")), dist.ProcessGroupGloo)
    return group


@program
def training(at: Rank) -> None:
    """DistributedDataParallel, beside gloo with the same data: of two ranks the same bits."""
    gloo = new_gloo_group()
    weights = []
    for group in (at.group, gloo):
        torch.manual_seed(at.rank)
        model = nn.parallel.DistributedDataParallel(
            nn.Sequential(nn.Linear(200, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 10)),
            process_group=group, bucket_cap_mb=0.1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        torch.manual_seed(100 + at.rank)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 200)).square().mean().backward()
            optimizer.step()
        weights.append(torch.cat([value.detach().flatten() for value in model.parameters()]))
    if at.ranks == 2:
        equal(weights[0], weights[1])
    torch.testing.assert_close(weights[0], weights[1])
    everywhere = [torch.zeros_like(weights[0]) for _ in range(at.ranks)]
    dist.all_gather(everywhere, weights[0], group=at.group)
    assert all(torch.equal(one, weights[0]) for one in everywhere)


@program
def sharded_training(at: Rank) -> None:
    """FSDP2 on CPUs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model, plain = (nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 10))
                    for _ in range(2))
    plain.load_state_dict(model.state_dict())
    for layer in (*model, model):
        fully_shard(layer, mesh=init_device_mesh("cpu", (at.ranks,)))
    optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (model, plain)]
    batches = [torch.randn(6, 40, generator=torch.Generator().manual_seed(rank))
               for rank in range(at.ranks)]
    for _ in range(3):
        model(batches[at.rank]).square().mean().backward()
        sum(plain(batch).square().mean() for batch in batches).div(at.ranks).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for sharded, whole in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(sharded.full_tensor(), whole)


def error_of(call: Callable[[], object], kind: type = dist.DistBackendError) -> str:
    try:
        call()
    except kind as error:
        return str(error).splitlines()[0]
    raise AssertionError("no error")


# What rank 1 calls, and what the others do.
DIFFERENCES = {
    "sizes": (lambda group: dist.all_reduce(torch.ones(4), group=group),
              lambda group: dist.all_reduce(torch.ones(5), group=group)),
    "ways": (lambda group: dist.all_reduce(torch.ones(4), group=group),
             lambda group: dist.all_reduce(torch.ones(400_000), group=group)),
    "types": (lambda group: dist.all_reduce(torch.ones(4), group=group),
              lambda group: dist.all_reduce(torch.ones(4, dtype=torch.int32), group=group)),
    "operations": (lambda group: dist.all_reduce(torch.ones(4), group=group),
                   lambda group: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX, group=group)),
    "calls": (lambda group: dist.barrier(group=group),
              lambda group: dist.all_reduce(torch.ones(400_000), group=group)),
    "roots": (lambda group: dist.broadcast(torch.ones(4), 1, group=group),
              lambda group: dist.broadcast(torch.ones(4), 0, group=group)),
}


@program
def ranks_that_differ(at: Rank) -> None:
    for name, (of_one, of_others) in DIFFERENCES.items():
        group = dist.new_group(timeout=timedelta(minutes=5))
        call = of_one if at.rank == 1 else of_others
        texts = [None] * at.ranks
        dist.all_gather_object(texts, error_of(lambda: call(group)), group=at.group)
        assert len(set(texts)) == 1, (name, texts)
        assert "ranks differ: rank " in texts[0] and "rank 1 has " in texts[0], (name, texts)
        dist.destroy_process_group(group)


@program
def a_rank_that_does_not_come(at: Rank) -> None:
    group = dist.new_group(timeout=timedelta(seconds=1))
    dist.barrier(group=group)
    if at.rank != 1:
        text = error_of(lambda: dist.all_reduce(torch.ones(2, 3), group=group))
        assert text.startswith("allreduce 2 of group ") and text.endswith(
            " (sum), float32 [2, 3]: rank 1 has not come within 1 s; remedy: see what they do, or "
            "a longer timeout="), text
    dist.barrier(group=at.group)


@program
def a_rank_that_comes_too_late_to_the_first_call(at: Rank) -> None:
    """It finds that the others have given up, and no rank goes on with gloo."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    late = at.ranks - 1
    texts = [None] * at.ranks
    text = ""
    if at.rank != late:
        text = error_of(lambda: dist.all_reduce(torch.ones(3), group=group))
    dist.barrier(group=at.group)
    for call in (lambda: dist.all_reduce(torch.ones(3), group=group),
                 lambda: dist.barrier(group=group)):
        dist.all_gather_object(texts, [text or error_of(call), error_of(call)], group=at.group)
        text = ""
        assert len({one for both in texts for one in both}) == 1, texts
    assert re.fullmatch(rf"first call of group \S+: rank {late} has not come within 1 s; remedy: "
                        "see what they do, or a longer timeout=", texts[0][0]), texts
    from horovod_opt.c10d.group import counts

    assert set(counts(group).values()) == {(0, 0)}, counts(group)


@program
def a_forked_child(at: Rank) -> None:
    dist.barrier(group=at.group)
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(2), group=at.group)
        except RuntimeError as error:
            os._exit("was made before this process was forked" not in str(error))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.barrier(group=at.group)


@program
def many_groups(at: Rank) -> None:
    groups = [dist.new_group([rank for rank in range(at.ranks) if number % 2 or rank < 2])
              for number in range(24)]
    for number, group in enumerate(groups):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            tensor = torch.ones(number + 1)
            dist.all_reduce(tensor, group=group)
            assert (tensor == dist.get_world_size(group)).all()
    for group in groups:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)


def results(rank: int, ranks: int) -> Iterator[tuple[str, str]]:
    for name, function in PROGRAMS.items():
        group = dist.new_group()
        try:
            function(Rank(group, rank, ranks))
            yield name, ""
        except Exception:
            yield name, traceback.format_exc()
            return  # the others may be anywhere
        dist.destroy_process_group(group)


def dies(rank: int) -> None:
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), 9)
    start = time.monotonic()
    text = error_of(lambda: dist.all_reduce(torch.ones(10)))
    print(json.dumps({"dies": text, "seconds": time.monotonic() - start}), flush=True)
    os._exit(0)


def goes_as_gloo(store: str, rank: int, ranks: int) -> Iterator[tuple[str, str]]:
    """HOROVOD_OPT_AS_GLOO=1: what programs get that name gloo, or nothing."""
    from horovod_opt.c10d import as_gloo
    from horovod_opt.c10d.group import counts

    for number, name in enumerate((None, "gloo", "cpu:gloo")):
        dist.init_process_group(name, init_method=f"file://{store}{number}", rank=rank,
                                world_size=ranks, timeout=timedelta(minutes=5))
        group = dist.new_group()
        assert dist.get_backend() == dist.get_backend(group) == (name or "undefined")
        assert dist.get_backend_config() == "cpu:hvdopt"
        for program in (reductions, futures, training):
            found = Rank(dist.new_group(), rank, ranks)
            program(found)
            by_kind = counts(found.group)
            assert by_kind["allreduce"][0] > 0 and not any(other for _, other in by_kind.values())
        what_gloo_does(Rank(dist.new_group(), rank, ranks))
        if name == "gloo":  # PyTorch asks for the name
            dist.monitored_barrier(group, timedelta(minutes=1), wait_all_ranks=True)
        new_gloo_group()
        os.environ["HOROVOD_OPT_AS_GLOO"] = "2"
        text = error_of(lambda: dist.new_group(backend="gloo"), ValueError)
        assert text.startswith("HOROVOD_OPT_AS_GLOO='2' is out of bounds"), text
        os.environ["HOROVOD_OPT_AS_GLOO"] = "1"
        dist.barrier()
        dist.destroy_process_group()
    dist.distributed_c10d._new_process_group_helper = lambda size, *, name="": None
    as_gloo.replace_gloo()
    text = error_of(lambda: dist.init_process_group(
        "gloo", init_method=f"file://{store}3", rank=rank, world_size=ranks), RuntimeError)
    assert re.fullmatch(r"HOROVOD_OPT_AS_GLOO=1 does not know PyTorch \S+: its "
                        r"_new_process_group_helper takes \(size, \*, name=''\); remedy: unset it, "
                        r'and init_process_group\("hvdopt"\)', text), text
    yield "as_gloo", ""


def main() -> None:
    store, rank, ranks, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    if kind == "as_gloo":
        print(json.dumps(dict(goes_as_gloo(str(Path(store).absolute()), rank, ranks))), flush=True)
        return
    dist.init_process_group("hvdopt", init_method=f"file://{Path(store).absolute()}", rank=rank,
                            world_size=ranks)
    if kind == "dies":
        dies(rank)
    print(json.dumps(dict(results(rank, ranks))), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
