"""Every operation of Horovod on TensorFlow, in each of the given modes, eagerly and in a graph;
writes <mode>.eager.<rank>.npz and <mode>.graph.<rank>.npz.
"""

import functools
import sys

import cases
import edge_calls
import horovod.tensorflow as hvd
import numpy as np
import special_values
import tapes
import tensorflow as tf
from common import CONTROLLER, FOLDER, RANK, graph_plans, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

SPECIAL_CALLS = 20  # of which the last are planned in mode topo


def tensor(array: np.ndarray, dtype: str) -> tf.Tensor:
    return tf.cast(tf.constant(array), dtype)


def array(result: tf.Tensor) -> np.ndarray:
    """As cases.expected() has it."""
    if result.dtype == tf.bfloat16:
        return np.asarray(tf.bitcast(result, tf.uint16))
    own = np.asarray(result)
    return own.view(np.uint8) if own.dtype.name.startswith("float8") else own


def reduce_everything(size: int) -> dict[str, tf.Tensor]:
    results = {}
    for dtype in cases.REDUCED["tensorflow"]:
        for op in cases.reductions(dtype):
            name = f"allreduce/{op}.{dtype}"
            own = tensor(cases.values(dtype, RANK, 5, 3), dtype)
            results[name] = hvd.allreduce(own, name=name, op=getattr(hvd, op))
            name = f"grouped_allreduce/{op}.{dtype}"
            group = [tensor(cases.values(dtype, RANK, 4, i + 1), dtype) for i in range(3)]
            for i, part in enumerate(hvd.grouped_allreduce(group, op=getattr(hvd, op))):
                results[f"{name}.{i}"] = part
    for dtype in cases.FLOATS:
        name = f"scaled_allreduce/{dtype}"
        own = tensor(cases.values(dtype, RANK, 7), dtype)
        results[name] = hvd.allreduce(own, name=name, op=hvd.Sum, **cases.SCALES)
    for dtype in cases.ADASUM if cases.has_adasum(CONTROLLER, size) else ():
        name = f"adasum/{dtype}"
        own = tensor(cases.orthogonal(dtype, RANK, size), dtype)
        results[name] = hvd.allreduce(own, name=name, op=hvd.Adasum)
    for dtype in cases.SCATTERED:
        for op in cases.scatters(dtype):
            name = f"reducescatter/{op}.{dtype}"
            own = tensor(cases.values(dtype, RANK, 2 * size + 1, 3), dtype)
            results[name] = hvd.reducescatter(own, name=name, op=getattr(hvd, op))
            name = f"grouped_reducescatter/{op}.{dtype}"
            group = [tensor(cases.values(dtype, RANK, 2 * size, i + 1), dtype) for i in range(2)]
            for i, part in enumerate(hvd.grouped_reducescatter(group, op=getattr(hvd, op))):
                results[f"{name}.{i}"] = part
    for dtype, name in cases.RANDOM.items():
        own = tensor(cases.random(RANK), dtype)
        results[name] = hvd.allreduce(own, name=name, op=hvd.Sum)
    slices = tf.IndexedSlices(
        tf.constant(cases.values("float32", RANK, 2, 2)),
        tf.constant([RANK, RANK + 1]),
        tf.constant([size + 1, 2]),
    )
    reduced = hvd.allreduce(slices, name="sparse", op=hvd.Sum)
    results["sparse/dense"] = tf.scatter_nd(reduced.indices[:, None], reduced.values, [size + 1, 2])
    return results


def move_everything(size: int) -> dict[str, tf.Tensor]:
    results = {}
    for dtype in cases.MOVED:
        name = f"allgather/{dtype}"
        results[name] = hvd.allgather(tensor(cases.values(dtype, RANK, 2, 3), dtype), name=name)
        name = f"uneven_allgather/{dtype}"
        own = tensor(cases.values(dtype, RANK, cases.rows(RANK), 4), dtype)
        results[name] = hvd.allgather(own, name=name)
        name = f"grouped_allgather/{dtype}"
        group = [tensor(cases.values(dtype, RANK, 2, i + 1), dtype) for i in range(2)]
        for i, part in enumerate(hvd.grouped_allgather(group, name=name)):
            results[f"{name}.{i}"] = part
        name = f"broadcast/{dtype}"
        own = tensor(cases.values(dtype, RANK, 4, 2), dtype)
        results[name] = hvd.broadcast(own, size - 1, name=name)
        name = f"alltoall/{dtype}"
        own = tensor(cases.values(dtype, RANK, 2 * size, 3), dtype)
        even = tf.constant([2] * size)
        results[f"{name}.0"], results[f"{name}.1"] = hvd.alltoall(own, splits=even, name=name)
        name = f"split_alltoall/{dtype}"
        splits = cases.splits(RANK, size)
        own = tensor(cases.values(dtype, RANK, splits.sum(), 2), dtype)
        results[f"{name}.0"], results[f"{name}.1"] = hvd.alltoall(
            own, splits=tf.constant(splits), name=name
        )
    return results


def call(operation: str, own: tf.Tensor, splits: object, name: str) -> object:
    if operation == "alltoall":
        return hvd.alltoall(own, splits=splits, name=name)
    if operation == "broadcast":
        return hvd.broadcast(own, hvd.size() - 1, name=name)
    if operation == "allgather":
        return hvd.allgather(own, name=name)
    if operation.startswith("grouped"):  # of one type
        group = [own, tf.identity(own) if own.dtype != tf.float32 else tf.ones(hvd.size())]
        if operation == "grouped_allgather":
            return hvd.grouped_allgather(group)
        return getattr(hvd, operation)(group, op=hvd.Sum)
    if operation == "adasum":
        return hvd.allreduce(own, op=hvd.Adasum, name=name)
    return getattr(hvd, operation)(own, op=hvd.Sum, name=name)


def perform(operation: str, sent: edge_calls.Sent, name: str, graph: bool) -> object:
    splits = sent.splits
    if sent.splits_dtype:
        splits = tf.constant(splits, sent.splits_dtype)
    run = functools.partial(call, operation, splits=splits, name=name)
    own = tensor(np.ones(sent.shape), sent.dtype)
    return tf.function(run, autograph=False)(own) if graph else run(own)


def act(operation: str, own: np.ndarray, splits: list[int], name: str) -> np.ndarray:
    result = call(operation, tf.constant(own), splits, name)
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def wrong_variables(root: int) -> list[str]:
    """The types whose variables are not the root's after a broadcast, in place and not."""
    wrong = []
    for in_place in False, True:
        own = {dtype: tf.Variable(tensor(cases.values(dtype, RANK, 3), dtype))
               for dtype in cases.MOVED}
        hvd.broadcast_variables(list(own.values()), root, inplace=in_place)
        for dtype, variable in own.items():
            right = tensor(cases.values(dtype, root, 3), dtype)
            if array(variable.value()).tolist() != array(right).tolist():
                wrong.append(f"{dtype}, in place: {in_place}")
    return wrong


def use_process_sets(sets: dict[str, hvd.ProcessSet]) -> dict[str, tf.Tensor]:
    results = {}
    for name, process_set in sets.items():
        if not process_set.included():
            continue
        name = f"process_sets/{name}"
        own = tf.constant(cases.values("int32", RANK, 5))
        results[f"{name}.allreduce"] = hvd.allreduce(
            own, name=f"{name}.allreduce", op=hvd.Sum, process_set=process_set
        )
        own = tf.constant(cases.values("int32", RANK, cases.rows(RANK), 2))
        results[f"{name}.allgather"] = hvd.allgather(
            own, name=f"{name}.allgather", process_set=process_set
        )
        own = tf.constant(cases.values("int32", RANK, 3))
        results[f"{name}.broadcast"] = hvd.broadcast(
            own, process_set.ranks[-1], name=f"{name}.broadcast", process_set=process_set
        )
    return results


def reduced_specials() -> dict[str, object]:
    """The bits of the last sums, and what has become of their plan. TensorFlow's threads, of which
    one may add them up, make zeros of denormals."""
    names = special_values.NAMES
    given = [tf.bitcast(tf.constant(special_values.drawn(name, RANK)), name.split()[-1])
             for name in names]

    @tf.function(autograph=False)
    def specials(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [hvd.allreduce(own, op=getattr(hvd, name.split()[0]), name=name.replace(" ", "."))
                for own, name in zip(tensors, names)]

    for turn in range(SPECIAL_CALLS):
        results = specials(*given)
        hvd.allreduce(tf.zeros([1]), name=f"after specials {turn}")  # a round, to vote in
    bits = {name: np.asarray(tf.bitcast(result, special_values.word(name.split()[-1])))
            for name, result in zip(names, results)}
    return {"states": [plan.state for plan in graph_plans() if plan.name == "specials"],
            "bits": {name: array.tobytes().hex() for name, array in bits.items()}}


def everything(size: int, sets: dict[str, hvd.ProcessSet]) -> dict[str, tf.Tensor]:
    return {**reduce_everything(size), **move_everything(size), **use_process_sets(sets)}


start_mpi(_basics.MPI_LIB_CTYPES)
reports: dict[str, dict] = {}
for mode in sys.argv[2:]:
    with running(hvd, mode, HOROVOD_DYNAMIC_PROCESS_SETS="1"):
        size = hvd.size()
        ranks = cases.process_sets(size)
        sets = {name: hvd.add_process_set(ranks[name]) for name in ranks}
        run = functools.partial(everything, size, sets)
        for how, operations in ("eager", run), ("graph", tf.function(run, autograph=False)):
            arrays = {name: array(result) for name, result in operations().items()}
            np.savez(FOLDER / f"{mode}.{how}.{RANK}.npz", **arrays)
        if mode in edge_calls.MODES:
            in_graph = functools.partial(perform, graph=mode == "topo")
            times = edge_calls.MODES[mode]
            reports[mode] = {"edges": edge_calls.wrong_at_edges(RANK, size, times, act),
                             "objects": edge_calls.wrong_objects(RANK, size, hvd),
                             "errors": edge_calls.errors_of(RANK, size, in_graph),
                             "gradients": tapes.wrong_gradients(RANK, size, hvd),
                             "session": tapes.weights_of_a_session(RANK, hvd),
                             "session objects": tapes.objects_of_a_session(RANK, hvd),
                             "variables": wrong_variables(size - 1),
                             "specials": reduced_specials(),
                             "sum": int(hvd.allreduce(tf.constant(RANK + 1), op=hvd.Sum))}
        for process_set in sets.values():
            assert hvd.remove_process_set(process_set)
report(**reports)
