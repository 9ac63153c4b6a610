"""Every operation of Horovod on PyTorch, in each of the given modes; writes <mode>.<rank>.npz.

A mode followed by ",uncached" runs without the response cache.
"""

import os
import sys
import time

import cases
import edge_calls
import horovod.torch as hvd
import numpy as np
import torch
from common import CONTROLLER, FOLDER, RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics


def tensor(array: np.ndarray, dtype: str = "") -> torch.Tensor:
    own = torch.from_numpy(array)
    return own.to(getattr(torch, dtype)) if dtype else own


def array(result: object) -> np.ndarray:
    """As cases.expected() has it."""
    if isinstance(result, torch.Tensor) and result.dtype == torch.bfloat16:
        return result.view(torch.int16).numpy().view(np.uint16)
    if isinstance(result, torch.Tensor) and str(result.dtype).startswith("torch.float8"):
        return result.view(torch.uint8).numpy()
    return np.asarray(result)


def reduce_everything(size: int) -> dict[str, int]:
    handles = {}
    for dtype in cases.REDUCED["torch"]:
        for op in cases.reductions(dtype):
            name = f"allreduce/{op}.{dtype}"
            own = tensor(cases.values(dtype, RANK, 5, 3), dtype)
            handles[name] = hvd.allreduce_async(own, name=name, op=getattr(hvd, op))
            name = f"grouped_allreduce/{op}.{dtype}"
            group = [tensor(cases.values(dtype, RANK, 4, i + 1), dtype) for i in range(3)]
            handles[name] = hvd.grouped_allreduce_async(group, name=name, op=getattr(hvd, op))
    for dtype in cases.FLOATS:
        name = f"scaled_allreduce/{dtype}"
        own = tensor(cases.values(dtype, RANK, 7), dtype)
        handles[name] = hvd.allreduce_async(own, name=name, op=hvd.Sum, **cases.SCALES)
    for dtype in cases.ADASUM if cases.has_adasum(CONTROLLER, size) else ():
        name = f"adasum/{dtype}"
        own = tensor(cases.orthogonal(dtype, RANK, size), dtype)
        handles[name] = hvd.allreduce_async(own, name=name, op=hvd.Adasum)
    for dtype in cases.SCATTERED:
        for op in cases.scatters(dtype):
            name = f"reducescatter/{op}.{dtype}"
            own = tensor(cases.values(dtype, RANK, 2 * size + 1, 3), dtype)
            handles[name] = hvd.reducescatter_async(own, name=name, op=getattr(hvd, op))
            name = f"grouped_reducescatter/{op}.{dtype}"
            group = [tensor(cases.values(dtype, RANK, 2 * size, i + 1), dtype) for i in range(2)]
            handles[name] = hvd.grouped_reducescatter_async(group, name=name, op=getattr(hvd, op))
    for dtype, name in cases.RANDOM.items():
        own = tensor(cases.random(RANK), dtype)
        handles[name] = hvd.allreduce_async(own, name=name, op=hvd.Sum)
    return handles


def move_everything(size: int) -> dict[str, int]:
    handles = {}
    for dtype in cases.MOVED:
        name = f"allgather/{dtype}"
        own = tensor(cases.values(dtype, RANK, 2, 3), dtype)
        handles[name] = hvd.allgather_async(own, name=name)
        name = f"uneven_allgather/{dtype}"
        own = tensor(cases.values(dtype, RANK, cases.rows(RANK), 4), dtype)
        handles[name] = hvd.allgather_async(own, name=name)
        name = f"grouped_allgather/{dtype}"
        group = [tensor(cases.values(dtype, RANK, 2, i + 1), dtype) for i in range(2)]
        handles[name] = hvd.grouped_allgather_async(group, name=name)
        name = f"broadcast/{dtype}"
        own = tensor(cases.values(dtype, RANK, 4, 2), dtype)
        handles[name] = hvd.broadcast_async(own, size - 1, name=name)
        name = f"alltoall/{dtype}"
        own = tensor(cases.values(dtype, RANK, 2 * size, 3), dtype)
        handles[name] = hvd.alltoall_async(own, name=name)
        name = f"split_alltoall/{dtype}"
        splits = cases.splits(RANK, size)
        own = tensor(cases.values(dtype, RANK, splits.sum(), 2), dtype)
        handles[name] = hvd.alltoall_async(own, splits=tensor(splits), name=name)
    return handles


def finished(handles: dict[str, int]) -> dict[str, torch.Tensor]:
    """The results; those of one operation with several get a number."""
    results = {}
    for name, handle in handles.items():
        result = hvd.synchronize(handle)
        if isinstance(result, torch.Tensor):
            results[name] = result
        else:
            results.update({f"{name}.{i}": part for i, part in enumerate(result)})
    return results


def call(operation: str, own: torch.Tensor, splits: object, name: str) -> object:
    if operation == "alltoall":
        return hvd.alltoall(own, splits=splits, name=name)
    if operation == "broadcast":
        return hvd.broadcast(own, hvd.size() - 1, name=name)
    if operation == "allgather":
        return hvd.allgather(own, name=name)
    if operation == "grouped_allgather":
        return hvd.grouped_allgather([own, torch.ones(hvd.size())], name=name)
    if operation.startswith("grouped"):
        return getattr(hvd, operation)([own, torch.ones(hvd.size())], op=hvd.Sum, name=name)
    if operation == "adasum":
        return hvd.allreduce(own, op=hvd.Adasum, name=name)
    return getattr(hvd, operation)(own, op=hvd.Sum, name=name)


def perform(operation: str, sent: edge_calls.Sent, name: str) -> object:
    splits = sent.splits
    if sent.splits_dtype:
        splits = torch.tensor(splits, dtype=getattr(torch, sent.splits_dtype))
    return call(operation, tensor(np.ones(sent.shape), sent.dtype), splits, name)


def act(operation: str, own: np.ndarray, splits: list[int], name: str) -> np.ndarray:
    result = call(operation, tensor(own), splits, name)
    return array(result[0] if isinstance(result, tuple) else result)


def use_process_sets(size: int) -> dict[str, torch.Tensor]:
    # All exist at once, so that they overlap, and go one by one.
    sets = {name: hvd.add_process_set(ranks) for name, ranks in cases.process_sets(size).items()}
    results = {}
    for name, process_set in sets.items():
        if not process_set.included():
            continue
        own = tensor(cases.values("int32", RANK, 5))
        results[f"process_sets/{name}.allreduce"] = hvd.allreduce(
            own, name=f"{name}.allreduce", op=hvd.Sum, process_set=process_set
        )
        own = tensor(cases.values("int32", RANK, cases.rows(RANK), 2))
        results[f"process_sets/{name}.allgather"] = hvd.allgather(
            own, name=f"{name}.allgather", process_set=process_set
        )
        own = tensor(cases.values("int32", RANK, 3))
        results[f"process_sets/{name}.broadcast"] = hvd.broadcast(
            own, process_set.ranks[-1], name=f"{name}.broadcast", process_set=process_set
        )
        hvd.barrier(process_set=process_set)
    for process_set in sets.values():
        assert hvd.remove_process_set(process_set)
    return results


def do_the_rest(size: int, variant: str) -> dict[str, object]:
    results = {}
    for step in range(cases.steps_before_join(RANK)):
        own = tensor(cases.values("float32", RANK, 4))
        results[f"join/{step}"] = hvd.allreduce(own, name="before.join", op=hvd.Sum)
    results["join/last"] = hvd.join()

    own = torch.sparse_coo_tensor(
        torch.tensor([[RANK, RANK + 1]]),
        tensor(cases.values("float32", RANK, 2, 2)),
        (size + 1, 2),
        check_invariants=True,
    )
    results["sparse/dense"] = hvd.sparse_allreduce_async(own, "sparse", hvd.Sum)().to_dense()

    late = FOLDER / f"late.{variant}"
    if RANK == size - 1:
        time.sleep(0.2)
        late.touch()
    hvd.barrier()
    results["barrier/late"] = late.exists()
    return results


start_mpi(_basics.MPI_LIB_CTYPES)
reports: dict[str, dict] = {}
for variant in sys.argv[2:]:
    mode, _, uncached = variant.partition(",")
    if uncached:
        os.environ["HOROVOD_CACHE_CAPACITY"] = "0"
    with running(hvd, mode, HOROVOD_DYNAMIC_PROCESS_SETS="1"):
        size = hvd.size()
        handles = {**reduce_everything(size), **move_everything(size)}
        results = {**finished(handles), **use_process_sets(size), **do_the_rest(size, variant)}
        if variant in edge_calls.MODES:
            times = edge_calls.MODES[variant]
            reports[variant] = {"edges": edge_calls.wrong_at_edges(RANK, size, times, act),
                                "objects": edge_calls.wrong_objects(RANK, size, hvd),
                                "errors": edge_calls.errors_of(RANK, size, perform),
                                "sum": call("allreduce", torch.tensor(RANK + 1), None, "s").item()}
    arrays = {name: array(result) for name, result in results.items()}
    np.savez(FOLDER / f"{variant}.{RANK}.npz", **arrays)
report(**reports)
