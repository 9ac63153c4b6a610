"""`order="ordered"`: all samples are permuted together, dealt to the whole job, and read in parcels
from whoever keeps them."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from data_sets import files, tar, tfrecord
from kept_reads import FRAME, SAMPLES, SIZE, WHOLE, read, spoil, take_numbers, total
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.decoder import decode_samples, read_step
from horovod_opt.io.errors import InputError
from horovod_opt.io.order import parcels
from horovod_opt.io.step_source import StepSource

ORDERED = {"order": "ordered", "shards": None, "window": None}


@pytest.fixture(params=[1, 50_000, parcels.BYTES], ids=["steps", "few", "many"])
def parcel_bytes(request, monkeypatch) -> None:
    monkeypatch.setattr(parcels, "BYTES", request.param)


def numbers(steps: list) -> list[int]:
    return sorted(sum((sum(rank, []) for rank in steps), []))


@pytest.mark.parametrize("nodes, local", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
@pytest.mark.usefixtures("parcel_bytes")
def test_each_sample_is_read_once_and_then_comes_from_its_home(pattern, nodes, local):
    steps, stats = read(pattern, nodes, local, cache=2 * WHOLE, **ORDERED)
    assert numbers(steps) == sorted(3 * list(range(SAMPLES)))
    assert steps == read(pattern, 1, nodes * local, **ORDERED)[0]  # the order is that without
    assert SAMPLES * SIZE <= total(stats, "node_bytes_read") <= WHOLE
    assert total(stats, "node_again_bytes") == total(stats, "fallback_bytes") == 0
    # Records alone go over the network: those that another node keeps.
    assert total(stats, "peer_bytes") == total(stats, "served_bytes")
    assert total(stats, "peer_bytes") == total(stats, "peer_requests") * SIZE
    part = total(stats, "peer_bytes") / (3 * SAMPLES * SIZE)
    assert part == pytest.approx((nodes - 1) / nodes, abs=0.05)


@pytest.mark.parametrize("least", [1, 50_000])
def test_memory_is_for_what_ranks_take_not_for_the_data(pattern, monkeypatch, least):
    """Less than a tenth of it, which no window of all would fit into."""
    monkeypatch.setattr(parcels, "BYTES", least)
    steps, stats = read(pattern, 2, 2, cache=WHOLE, memory=80 * SIZE, batch=2, **ORDERED)
    assert numbers(steps) == sorted(3 * list(range(SAMPLES)))
    assert all(node["node_most_live_bytes"] <= 80 * SIZE for node in stats)


@pytest.mark.parametrize("nodes, part", [(1, 0.5), (2, 0.5), (2, 0.25)])
def test_what_nobody_keeps_is_read_sample_by_sample(pattern, nodes, part, capfd):
    steps, stats = read(pattern, nodes, 1, cache=int(part * WHOLE * 1.02 / nodes), **ORDERED)
    assert numbers(steps) == sorted(3 * list(range(SAMPLES)))
    kept = total(stats, "kept_bytes")
    assert kept == pytest.approx(part * WHOLE, rel=0.07)
    samples = SAMPLES - round(kept / (SIZE + FRAME))
    assert total(stats, "node_bytes_read") == kept + 3 * samples * SIZE
    assert total(stats, "node_again_bytes") == 2 * samples * SIZE
    said = re.findall(r"no node keeps (\d+) of 1200 samples, so each epoch has (\d+) reads of ",
                      capfd.readouterr().err)
    assert said == [(str(samples), str(samples))]  # by one rank, once


def test_without_a_cache_each_sample_is_a_read(pattern):
    steps, stats = read(pattern, 2, 1, **ORDERED)
    assert numbers(steps) == sorted(3 * list(range(SAMPLES)))
    assert total(stats, "node_bytes_read") == 3 * SAMPLES * SIZE
    assert total(stats, "node_requests") == 3 * SAMPLES


def test_loaders_that_are_made_anew_find_what_earlier_ones_have_read(pattern):
    steps, stats = read(pattern, 2, 1, loaders=True, cache=WHOLE, **ORDERED)
    assert numbers(steps) == sorted(3 * list(range(SAMPLES)))
    assert total(stats, "node_bytes_read") <= WHOLE
    assert total(stats, "fallback_bytes") == 0


def test_what_a_node_kept_that_has_ended_comes_from_storage(pattern):
    def lose(data, rank: int, epoch: int) -> None:
        if epoch == 1 and rank == 1:
            data.job_memory._handle.stop()

    steps, stats = read(pattern, 2, 1, epochs=4, between=lose, cache=2 * WHOLE, **ORDERED)
    assert steps == read(pattern, 2, 1, epochs=4, **ORDERED)[0]
    assert stats[0]["fallback_bytes"] > 0
    assert WHOLE < total(stats, "node_bytes_read") < 4 * WHOLE


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_damaged_record_is_left_out_and_costs_its_chunk(pattern, nodes):
    good = spoil(pattern)
    taken, stats = take_numbers(pattern, nodes, bad="skip", cache=2 * WHOLE, chunk_samples=20,
                                order="ordered")
    assert sorted(sum(taken, [])) == sorted(2 * good)
    assert total(stats, "kept_bytes") <= WHOLE - 4 * 20 * SIZE


def contents(number: int, part: int = 0) -> bytes:
    return bytes([number % 251, part]) * (37 * number % 900)  # some are empty


def write_folder(path):
    return files(path, {f"{number % 3}/{number:03d}.jpg": contents(number)
                        for number in range(100)})


def write_tars(path):
    path.mkdir()
    for file in range(3):
        tar(path / f"{file}.tar", [
            (f"{number:03d}.{part}", contents(number, part)) for number in range(file, 99, 3)
            for part in range(3)])
    return str(path / "*.tar")


def write_records(path):
    return tfrecord(path, [contents(number) for number in range(100)])


@pytest.mark.parametrize("write", [write_folder, write_tars, write_records])
@pytest.mark.usefixtures("pattern", "parcel_bytes")
def test_of_any_format_come_the_bytes_that_come_without(tmp_path, write):
    """Also of chunks that are many pieces of files, and of parts and samples without a byte."""
    pattern = write(tmp_path / "other")

    def on_rank(open_data, rank: int, **options) -> list:
        with open_data(pattern, seed=3, chunk_samples=7, **options) as data:
            source, taken = StepSource(data, 3, None, "spread", 2), []
            for _ in range(2):
                for step in source.samples(source.begin()):
                    taken += decode_samples(
                        data, read_step(data, source.member, step).samples,
                        lambda sample: (sample.key, sample.data if len(data.index.parts) == 1
                                        else tuple(sample.parts.values())))
                    data.advance(step.info.epoch, step.info.end)
            return taken

    expected = Counter(succeeded(in_job(1, on_rank))[0])
    for cache in ("1MiB", "20KiB"):
        taken = succeeded(in_job(3, lambda open_data, rank: on_rank(
            open_data, rank, order="ordered", cache=cache), 1))
        assert Counter(sum(taken, [])) == expected


def test_groups_have_the_same_samples_of_their_nodes(pattern):
    steps, stats = read(pattern, 2, 2, cache=WHOLE, groups=[[0, 1], [2, 3]], **ORDERED)
    assert steps[0] == steps[1] and steps[2] == steps[3]
    assert numbers([steps[0], steps[2]]) == sorted(3 * list(range(SAMPLES)))
    assert total(stats, "node_bytes_read") <= WHOLE


def test_a_state_of_windows_is_refused(pattern):
    with hio.open(pattern, seed=5, shards=1, window=3, chunk_samples=20) as data:
        state = data.state_dict()
    with hio.open(pattern, seed=5, order="ordered") as data:
        with pytest.raises(InputError, match="the state is of windows of 3 chunks.*; remedy: "):
            data.load_state_dict(state)
    whole = SAMPLES // 20
    with hio.open(pattern, seed=5, shards=1, window=whole, chunk_samples=20) as data:
        data.advance(3, 50)
        state = data.state_dict()
    with hio.open(pattern, seed=5, order="ordered") as data:  # the same order
        data.load_state_dict(state)
        assert data.state_dict() == state


@pytest.mark.parametrize("options, text", [
    ({"window": 3}, "window=3"), ({"shards": 3}, "shards=3"), ({"shuffle": False}, "shuffle=False"),
    ({"order": "arrival"}, "order='arrival'; remedy: one of window, ordered")])
def test_what_it_cannot_be_with_is_refused_on_all_ranks(pattern, options, text):
    errors = in_job(2, lambda open_data, rank: open_data(pattern, **{"order": "ordered",
                                                                    **options}), 1)
    assert {type(error) for error in errors} == {InputError}
    assert {str(error) for error in errors} == {str(errors[0])}
    assert text in str(errors[0]) and "; remedy: " in str(errors[0])


def test_too_little_memory_is_refused_on_all_ranks(pattern):
    def on_rank(open_data, rank: int) -> None:
        with open_data(pattern, order="ordered", memory=3 * SIZE) as data:
            StepSource(data, 10, None, "spread")

    errors = in_job(2, on_rank)
    assert {type(error) for error in errors} == {InputError}
    assert re.search(r"memory=\S+ \S+ is less than the \S+ \S+ that what its ranks take in few "
                     r"steps may need at once; remedy: more memory, or smaller batches",
                     str(errors[0]))
