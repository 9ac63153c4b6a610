"""Part 6: what scripts do on GPUs, with two ranks at least: averages of float16, channels_last, an
error that is caught, asynchronous completion off the default stream."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_table import NOT_RUN, PASSED, Row, judge
from part_nccl import TWO_ON_ONE
from part_setup import Setup, problem

CAUGHT = 1


def rows(setup: Setup) -> Iterator[Row]:
    ranks = max(2, setup.gpus)
    job = setup.job("scripts", "gpu_scripts", "cuda" if setup.gpus else "cpu", ranks=ranks,
                    controller="gloo")
    if TWO_ON_ONE in job.output and not job.hung:
        yield Row("6", "two ranks on one GPU", f"NCCL refuses it: {TWO_ON_ONE}", NOT_RUN)
        return
    wrong = problem(job, ranks)
    if wrong:
        yield judge("6", "scripts on GPUs", wrong, False)
        return
    yield from comparison_rows(ranks, job.of_ranks(ranks))


def comparison_rows(ranks: int, reports: list[dict]) -> Iterator[Row]:
    first = reports[0]
    halves = {name: max(report["halves"][name] for report in reports) for name in first["halves"]}
    # The page says that they may differ: what is found is reported, whatever it is.
    yield Row("6", "float16: averages that depend on the place in the buffer",
              f"{halves['average']} elements", PASSED)
    if ranks == 2:
        yield judge("6", "float16: sums that depend on the place in the buffer",
                    f"{halves['sum']} elements", halves["sum"] == 0)
    yield judge("6", "float16: averages that depend on it with HOROVOD_OPT_DETERMINISTIC=1",
                f"{halves['alone']} elements", halves["alone"] == 0)
    for name, place in (("rows", 0), ("channels_last", 1)):
        yield trained(f"{name}: topo is off, bit for bit", name, reports,
                      [report["in_off"][place]["digest"] for report in reports]
                      if ranks == 2 else None)
    caught = {report["failed"]["caught"] for report in reports}
    yield trained(f"an error that is caught, on each rank {sorted(caught)} times", "failed",
                  reports, None, caught == {CAUGHT})
    yield trained("asynchronous completion, a stream of its own: as without, bit for bit",
                  "asynchronous", reports, [report["rows"]["digest"] for report in reports]
                  if ranks == 2 else None)
    wrong = max(report["wrong"] for report in reports)
    yield judge("6", "asynchronous completion, a stream of its own: wrong sums", wrong, wrong == 0)


def trained(what: str, name: str, reports: list[dict], digests: list[str] | None,
            also: bool = True) -> Row:
    """`digests`: of the weights, by rank; None: with more ranks others are right, too."""
    results = [report[name] for report in reports]
    same = all(result["same"] and result["finite"] for result in results)
    equal = digests is None or [result["digest"] for result in results] == digests
    planned = min(result["planned"] for result in results)
    value = f"{planned} planned steps" + ("" if same else "; ranks have other weights") + (
        "" if equal else "; other bits")
    return judge("6", what, value, same and equal and also and planned > 0)
