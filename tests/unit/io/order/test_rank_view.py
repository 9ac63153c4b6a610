"""What each rank sees of data that is sorted by class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from data_sets import files
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.job.room import neighbours
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.choice import DataSize, Given, choose
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.rank_view import glance, look, look_at_order, rank_rl, runs_of, weakness

KB = 1000
# Samples, bytes of each, classes.
DATA = {"ImageNet": (1_281_167, 110 * KB, 1000), "small images": (50_000, 3 * KB, 10),
        "some GB": (50_000, 30 * KB, 10), "a hundred classes": (100_000, 110 * KB, 100)}


def order_of(name: str, nodes: int, are_files: bool) -> Order:
    samples, size, _ = DATA[name]

    def chunk_bytes(chunk_samples: int) -> np.ndarray:
        return np.full(-(-samples // chunk_samples), chunk_samples * size)

    return choose(DataSize(samples, samples * size, are_files, chunk_bytes), Given(),
                  neighbours(8 * nodes, nodes), seed=3).order


def part_of_classes(name: str, order: Order, nodes: int, batch: int) -> float:
    samples, _, classes = DATA[name]
    labels = np.arange(samples) * classes // samples
    return glance(order, 8 * nodes, batch, neighbours(8 * nodes, nodes).nodes, labels).part


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("batch", [32, 64])
@pytest.mark.parametrize("nodes, are_files, least", [
    (1, True, 0.95), (1, False, 0.95), (4, True, 0.9), (4, False, 0.75)])
def test_a_rank_s_batch_has_the_classes_of_independent_draws(name, batch, nodes, are_files,
                                                             least):
    order = order_of(name, nodes, are_files)
    assert part_of_classes(name, order, nodes, batch) >= least


def test_by_the_rules_of_before_a_rank_had_few():
    order = order_of("ImageNet", 4, False)
    assert part_of_classes("ImageNet", replace(order, version=1), 4, 64) < 0.3


def test_the_entropy_of_what_a_rank_gets():
    """More than by the rules of before, and with one node more than the whole order: a rank's
    samples are further apart."""
    order = Order(40_000, 50, 16, 5, seed=1)
    batches, labels = Batches(order, 16, batch_size=16), runs_of(40_000)
    for nodes in (1, 4):
        now, before = (look_at_order(replace(order, version=version), batches, 0,
                                     neighbours(16, nodes).nodes, labels) for version in (2, 1))
        assert now.rl - before.rl > (0.1 if nodes == 1 else 0.02)
        assert now.part > 0.8 and before.part < 0.5
    random = np.random.default_rng(0).permutation(40_000)[:16 * 16 * 156].reshape(156, 16, 16)
    independent = look([random[:, rank].ravel() for rank in range(16)], [[16] * 156] * 16, labels)
    assert independent.rl > 0.97 and independent.part == pytest.approx(1, abs=0.01)


def test_what_is_in_order_has_no_entropy():
    assert rank_rl(np.arange(0, 10_000, 4)) == 0
    assert rank_rl(np.random.default_rng(0).permutation(10_000)[:3000]) > 0.97


def test_classes_of_batches_of_different_sizes():
    labels = np.array([0, 0, 1, 1, 2, 2])
    view = look([np.array([0, 1, 2]), np.array([4, 3, 5])], [[2, 1], [3]], labels)
    assert view.classes == pytest.approx((1 + 1 + 2) / 3)
    of = [3 * (1 - (2 / 3)**size) for size in (2, 1, 3)]
    assert view.independent == pytest.approx(sum(of) / 3)
    assert view.part == pytest.approx(view.classes / view.independent)


@pytest.mark.parametrize("order, is_weak", [
    (Order(4000, 4, 16, 60), False), (Order(4000, 100, 4, 1), True),
    (Order(4000, 100, shuffle=False), False)])
def test_a_weak_shuffle_of_sorted_labels_is_said(order, is_weak):
    nodes = neighbours(8, 4).nodes
    text = weakness(order, nodes, np.arange(4000) // 100)
    assert bool(text) == is_weak
    if is_weak:
        assert "a rank's batch of 64 is of" in text and "remedy: more memory=" in text
    assert not weakness(order, nodes, np.random.default_rng(0).integers(0, 40, 4000))


@pytest.mark.parametrize("options, is_weak", [({}, False), (
    {"chunk_samples": 80, "shards": 4, "window": 1}, True)])
def test_open_says_it_once(tmp_path, capfd, options, is_weak):
    folder = files(tmp_path / "folder", {f"{number // 40:02d}/{number:04d}": b"x" * 10
                                         for number in range(1600)})

    def on_rank(open_data, rank: int) -> None:
        open_data(folder, **options).close()

    succeeded(in_job(4, on_rank, 2))
    assert capfd.readouterr().err.count("labels are sorted and the shuffle is weak") == is_weak


def test_small_data_is_opened_alike(tmp_path):
    with hio.open(files(tmp_path / "folder", {"a/1": b"x", "b/2": b"y"})) as data:
        assert len(data) == 2
