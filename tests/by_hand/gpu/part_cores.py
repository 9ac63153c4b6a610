"""Part 4: scp, auto and topo+scp with 4 cores a rank, without a GPU: where the threads are, and
images/s. With fewer than 8 cores, as many as there are are divided among two ranks, if that is
possible, or one has them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpu_table import NOT_RUN, Row, judged
from part_images import Config, measured
from part_setup import Setup, problem

from horovod_opt.cpu_set import count_cores

CORES = 4  # of a rank
MODES = ("scp", "auto", "topo+scp")
COMPARED = ("off", *MODES)
MODEL, PIXELS, BATCH = "ResNet50", 96, 4


def ranks_for(cores: int) -> int:
    """As many as have 4 cores each; two that have two or three; else one."""
    return max(cores // CORES, 2 if cores >= 4 else 1)


def rows(setup: Setup) -> Iterator[Row]:
    if setup.cores < 2:
        yield Row("4", "scp, auto, topo+scp", "mode scp needs two cores, and there is one", NOT_RUN)
        return
    ranks = ranks_for(setup.cores)
    each = min(CORES, setup.cores // ranks)
    job = setup.job("cores", "own_cores", *MODES, ranks=ranks)
    wrong = problem(job, ranks)
    for mode in MODES:
        what = f"{mode}, {ranks} ranks of {each} cores"
        if wrong:
            yield judged("4", what, wrong, False)
        else:
            yield apart(what, mode, [report[mode] for report in job.of_each(ranks)], each)
    configs = [Config(mode) for mode in COMPARED]
    job = setup.job("images-of-cores", "images_by_mode", MODEL, PIXELS, BATCH, setup.seconds,
                    setup.rounds, max(1, each - 1), "cpu", json.dumps([*map(vars, configs)]),
                    ranks=ranks, OMP_NUM_THREADS=str(max(1, each - 1)), CUDA_VISIBLE_DEVICES="")
    what = f"{MODEL}, {PIXELS} pixels, batch {BATCH}, CPU, {ranks} ranks of {each} cores"
    yield from measured("4", what, configs, job, ranks)


def apart(what: str, mode: str, reports: list[dict], cores: int) -> Row:
    """The background thread has a core of its own, unless `auto` found too few of them."""
    alone = all(not set(seen["background"]) & set(seen["others"]) for seen in reports)
    wanted = mode != "auto" or cores >= CORES
    own = sorted(count_cores(seen["background"]) for seen in reports)
    value = f"cores of the background thread: {own}" if alone else "its cores are those of others"
    return judged("4", what, value, alone == wanted and (not wanted or set(own) == {1}))
