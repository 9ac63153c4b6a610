"""What the orders of the experiment on shuffles are, and what it makes of its document."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import deepio

from horovod_lab.io.peers import orders
from horovod_lab.io.peers.orders import BATCH, BUFFER, ORDERS, RANKS, through_buffer
from horovod_opt.io.order.rank_view import look

SAMPLES = 24_000


@pytest.fixture(autouse=True)
def _of_this_checkout(library):
    """What io.order loads."""


@pytest.mark.parametrize("name", ORDERS)
def test_an_epoch_has_each_sample_at_most_once(name):
    shares = ORDERS[name](SAMPLES, 1, 0)
    assert shares.shape[1:] == (RANKS, BATCH) and shares.shape[0] > 0.95 * SAMPLES / RANKS / BATCH
    assert len(np.unique(shares)) == shares.size and shares.max() < SAMPLES
    again, other = ORDERS[name](SAMPLES, 1, 0), ORDERS[name](SAMPLES, 2, 0)
    assert (again == shares).all()
    assert name == "sorted data" or (other != shares).any()


def classes(name: str) -> float:
    """In a rank's batch, as a part of those of independent draws."""
    shares = ORDERS[name](SAMPLES, 1, 0)
    streams = [shares[:, rank].ravel() for rank in range(RANKS)]
    return look(streams, [[BATCH] * len(shares)] * RANKS, np.arange(SAMPLES) // 240, False).part


def test_orders_are_as_good_as_is_known():
    assert classes("full shuffle") == pytest.approx(1, abs=0.01)
    assert 0.6 < classes("MosaicML Streaming") < 0.9  # a node has whole shards
    assert classes("hio, folder") > 0.9
    assert classes("hio, records") > 0.75
    assert classes("hio, records, version 1") < 0.9
    assert classes("hio, small records") > 0.95 > 0.7 > classes("hio, small records, version 1")
    assert classes("WebDataset") < classes("tf.data") < 0.6
    assert classes("sorted data") < 0.1
    for part in (1, 0.5, 0.25):  # as from one node, whatever is in memory at a time
        assert classes(f"hio, dealt to the job, R = {part}") > 0.98
    assert classes("nodes that never exchange") < 0.7
    assert classes("groups of 4") > 0.98 > classes("groups of 16") > classes("groups of 256")


def test_a_buffer_keeps_samples_back_by_chance():
    stream = np.arange(20_000)
    result = through_buffer(stream, np.random.default_rng(0))
    assert sorted(result) == stream.tolist()
    delay = np.argsort(result) - stream
    assert -BUFFER <= delay.min() < -0.9 * BUFFER and abs(delay.mean()) < 1


def row(order: str, with_norm: float, without: float) -> dict:
    return {"order": order, "classes": 0.5, "rl": 0.9, "rank_rl": 0.8,
            "accuracy": {"with": [with_norm, with_norm + 0.02], "without": [without]}}


def test_what_is_lost_to_a_full_shuffle():
    document = {"kind": "deepio", "orders": [row("full shuffle", 0.8, 0.7),
                                               row("hio, folder", 0.79, 0.7),
                                               row("hio, records", 0.75, 0.69),
                                               *(row(f"hio, dealt to the job, R = {part}", 0.8, 0.7)
                                                 for part in (1, 0.5, 0.25))]}
    groups, besides = deepio.compare([document])[:3], deepio.compare([document])[3:]
    assert all(abs(beside.here - beside.reported.low) < 0.01 for beside in groups)
    assert [(beside.reported.show(beside.here), beside.at) for beside in besides[:4]] == [
        ("1.0", "hio, folder, with batch normalization"),
        ("0.0", "hio, folder, without batch normalization"),
        ("5.0", "hio, records, with batch normalization"),
        ("1.0", "hio, records, without batch normalization")]
    shown = deepio.section(document)
    assert shown.grids[0].rows[0] == ("full shuffle", "90", "80", "50", "81.0 (80.0 to 82.0)",
                                      "70.0 (70.0 to 70.0)")
    assert shown.pictures[0].name == "deepio"


def test_what_nodes_read_is_beside_the_trainings():
    def epoch(seconds: float) -> dict:
        return {"seconds": seconds, "cpu_seconds": 1.5, "bytes": 1 << 26, "requests": 9,
                "inversions": 100}

    reads = [{"pipeline": "hio", "nodes": nodes, "load": 3.2, "first_batch_seconds": 4.04,
              "is_complete": True, "epochs": [epoch(9), epoch(3 / nodes), epoch(1 / nodes)]}
             for nodes in (1, 2)]
    reads.append({"pipeline": "another", "absence": "no other: not here"})
    shown = deepio.section({"orders": [row("full shuffle", 0.8, 0.7)], "reads": reads})
    assert shown.grids[1].rows == [
        ("hio", "1", "4.0", "9.0", "67", "0.50", "1.8", "1.5", "3"),
        ("hio", "2", "4.0", "9.0", "134", "0.50", "1.8", "1.5", "3"),
        ("another", *("",) * 7, "not measured: no other: not here")]
    assert [picture.name for picture in shown.pictures] == ["deepio", "deepio-reads"]


def test_a_network_learns(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(deepio, "CLASSES", 4)
    labels = np.arange(4096) // 1024
    for has_norm in (True, False):
        accuracy = deepio.train(labels, [ORDERS["full shuffle"](4096, 0, 0)] * 2, 0, has_norm)
        assert accuracy > 0.8


def test_sizes_of_files_are_those_that_the_page_says():
    assert orders.MDS_SAMPLES == 610
    assert f"{orders.BLOCK:,}" in deepio.STUDY.description
