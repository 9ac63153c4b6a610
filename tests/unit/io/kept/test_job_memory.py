"""`cache=`: what a job has read once comes from its nodes' memory, in the order of before."""

from __future__ import annotations

import re
import threading

import pytest
from events import MINUTE, thread_names, wait_until
from kept_reads import (
    ORDER,
    SAMPLES,
    SIZE,
    WHOLE,
    read,
    spoil,
    take_epoch,
    take_numbers,
    total,
)
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.decoder import read_step
from horovod_opt.io.errors import InputError
from horovod_opt.io.step_source import StepSource


@pytest.mark.parametrize("nodes, local", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
def test_storage_is_read_once_and_the_order_is_that_of_before(pattern, nodes, local):
    without, before = read(pattern, nodes, local)
    kept, stats = read(pattern, nodes, local, cache=2 * WHOLE)
    assert kept == without
    assert total(before, "node_bytes_read") > 2.9 * SAMPLES * SIZE
    assert total(before, "node_again_bytes") == pytest.approx(
        2 / 3 * total(before, "node_bytes_read"), rel=0.01)
    assert total(stats, "node_again_bytes") == 0
    assert total(stats, "node_bytes_read") <= WHOLE
    assert SAMPLES * SIZE <= total(stats, "kept_bytes") <= WHOLE
    assert total(stats, "fallback_bytes") == 0
    assert total(stats, "peer_bytes") == total(stats, "served_bytes")
    assert (total(stats, "peer_bytes") > 0) == (nodes > 1)


@pytest.mark.parametrize("nodes, part", [(1, 0.5), (2, 0.5), (2, 0.25)])
def test_a_part_that_is_kept_saves_that_part_of_the_reading(pattern, nodes, part):
    """Of chunks of 60 KB each, which take whole pages."""
    steps, stats = read(pattern, nodes, 1, cache=int(part * WHOLE * 1.02 / nodes))
    assert steps == read(pattern, nodes, 1)[0]
    assert total(stats, "kept_bytes") == pytest.approx(part * WHOLE, rel=0.07)
    assert total(stats, "kept_bytes") <= part * WHOLE * 1.02
    # Records at the ends of what is read in pieces lack their frames.
    expected = WHOLE + 2 * (WHOLE - total(stats, "kept_bytes"))
    assert total(stats, "node_bytes_read") == pytest.approx(expected, rel=0.02)
    assert total(stats, "node_again_bytes") == pytest.approx(expected - WHOLE, rel=0.02)


@pytest.mark.parametrize("options", [
    {"shuffle": False, "shards": None, "window": None, "chunk_samples": 50},
    {"shards": 1, "window": 100}, {"shards": 3}], ids=["in order", "whole", "shared"])
@pytest.mark.parametrize("nodes", [2, 3])
def test_chunks_of_which_nodes_take_parts_are_read_once(pattern, nodes, options):
    steps, stats = read(pattern, nodes, 1, cache=WHOLE, **options)
    assert sorted(sum((sum(rank, []) for rank in steps), [])) == sorted(3 * list(range(SAMPLES)))
    assert steps == read(pattern, nodes, 1, **options)[0]
    assert total(stats, "node_bytes_read") <= WHOLE
    assert total(stats, "fallback_bytes") == 0


def test_dealt_to_the_whole_job_ranks_get_the_same_on_any_nodes(pattern):
    """From a node's part of each chunk, however small: each byte is read once, and goes to where it
    is taken."""
    on_one = read(pattern, 1, 4, deal="job")[0]
    assert on_one == read(pattern, 1, 4)[0]  # where it is a node's ranks that it is dealt to
    for nodes in (2, 4):
        steps, stats = read(pattern, nodes, 4 // nodes, cache=WHOLE, deal="job")
        assert steps == on_one
        assert total(stats, "node_bytes_read") <= WHOLE
        assert total(stats, "fallback_bytes") == 0
        part = total(stats, "peer_bytes") / (3 * SAMPLES * SIZE)
        assert part == pytest.approx((nodes - 1) / nodes, abs=0.05)


def test_a_folder_keeps_them_as_memory_does(pattern, tmp_path):
    steps, stats = read(pattern, 2, 1, cache=WHOLE, cache_in=str(tmp_path))
    assert steps == read(pattern, 2, 1)[0]
    assert total(stats, "node_bytes_read") <= WHOLE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]  # it has no name


def test_loaders_that_are_made_anew_find_what_earlier_ones_have_read(pattern):
    steps, stats = read(pattern, 2, 1, loaders=True, cache=WHOLE)
    assert sorted(sum((sum(rank, []) for rank in steps), [])) == sorted(3 * list(range(SAMPLES)))
    assert total(stats, "node_bytes_read") <= WHOLE
    assert total(stats, "fallback_bytes") == 0
    again = read(pattern, 2, 1, loaders=True)[1]
    assert total(again, "node_again_bytes") > 1.9 * SAMPLES * SIZE


def test_a_state_fits_any_cache_and_number_of_nodes(pattern):
    place = {}

    def save(data, rank: int, epoch: int) -> None:
        if epoch == 1:
            place.update(data.state_dict())

    whole = read(pattern, 2, 1, between=save, cache=WHOLE)[0]
    for nodes, local, cache in ((1, 2, None), (2, 1, WHOLE // 8), (1, 2, 2 * WHOLE)):
        again = read(pattern, nodes, local, epochs=2, state=dict(place), cache=cache)[0]
        per_epoch = len(again[0]) // 2
        for step in range(2 * per_epoch):  # each step has the same samples, whoever takes them
            assert sorted(sum((rank[step] for rank in again), [])) == sorted(
                sum((rank[per_epoch + step] for rank in whole), []))


def test_what_a_node_kept_that_has_ended_comes_from_storage(pattern):
    """Only its part of the memory has, in the middle of the job."""
    def lose(data, rank: int, epoch: int) -> None:
        if epoch == 1 and rank == 1:
            data.job_memory._handle.stop()

    steps, stats = read(pattern, 2, 1, epochs=4, between=lose, cache=2 * WHOLE)
    assert steps == read(pattern, 2, 1, epochs=4)[0]
    assert stats[0]["fallback_bytes"] > 0
    assert WHOLE < total(stats, "node_bytes_read") < 4 * WHOLE


def test_several_nodes_need_checksums(pattern, tmp_path):
    for number in range(20):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / str(number)).write_bytes(b"file")
    errors = in_job(2, lambda open_data, rank: StepSource(open_data(
        str(tmp_path / "files"), checksums=False, cache=WHOLE), 2, None, "spread"), 1)
    assert [type(error) for error in errors] == [InputError, InputError]
    assert str(errors[0]) == str(errors[1])
    assert re.search(r"cache=\d+ on 2 nodes, and an index without checksums.*; remedy: ",
                     str(errors[0]))
    with hio.open(str(tmp_path / "files"), checksums=False, cache=WHOLE) as data:  # one does not
        source = StepSource(data, 2, None, "spread", 3)
        for _ in range(3):
            for step in source.samples(source.begin()):
                assert read_step(data, source.member, step, True).samples.plain() == [b"file"] * 2
                data.advance(step.info.epoch, step.info.end)
        assert data.stats()["node_bytes_read"] == 20 * len(b"file")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_damaged_record_is_left_out_as_without_a_cache(pattern, nodes):
    good = spoil(pattern)
    taken, stats = take_numbers(pattern, nodes, bad="skip", cache=2 * WHOLE, **ORDER)
    assert sorted(sum(taken, [])) == sorted(2 * good)
    # The chunks with these records have no place; all others are kept.
    assert total(stats, "kept_bytes") <= WHOLE - 4 * 20 * SIZE


def test_what_is_not_used_any_more_ends(pattern):
    def keeps() -> bool:
        return ("hio-serve\n" in thread_names()
                or "hio-keep" in (thread.name for thread in threading.enumerate()))

    def on_rank(open_data, rank: int):
        data = open_data(pattern, **ORDER, cache=WHOLE)
        take_epoch(data, StepSource(data, 10, None, "spread", 1))
        through.wait(MINUTE)
        assert keeps()
        through.wait(MINUTE)
        del data  # nobody closes it

    through = threading.Barrier(2)
    succeeded(in_job(2, on_rank, 1))
    wait_until(lambda: not keeps())


def test_closed_data_still_counts(pattern):
    with hio.open(pattern, **ORDER, cache=WHOLE) as data:
        source = StepSource(data, 10, None, "spread")
        take_epoch(data, source)
        assert data.stats()["kept_bytes"] > 0
    stats = data.stats()
    assert stats["kept_bytes"] == 0
    assert SAMPLES * SIZE <= stats["node_bytes_read"] <= 2 * WHOLE  # it reads ahead
