"""Batches for PyTorch, in one process and on ranks that are threads."""

from __future__ import annotations

import itertools
import json
import os
import threading
from glob import glob

import numpy as np
import psutil
import pytest
import torch
from data_sets import environment, files, tar, tfrecord
from events import MINUTE, keep_cached, wait_until
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.node_reader import reader_process


def records(count: int) -> list[bytes]:
    random = np.random.default_rng(3)
    return [bytes([i % 256]) * int(random.integers(0, 900)) + i.to_bytes(4, "little")
            for i in range(count)]


@pytest.fixture
def tfrecords(tmp_path) -> str:
    """300 records in three files; their last four bytes are their numbers."""
    all_records = records(300)
    for file in range(3):
        tfrecord(tmp_path / f"{file}.tfrecord", all_records[100 * file:100 * (file + 1)])
    return str(tmp_path / "*.tfrecord")


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[-4:], "little")


def numbers_and_randoms(sample: hio.Sample) -> tuple[int, float, float]:
    return number(sample), sample.random.random(), float(torch.rand(()))


def taken(loader) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"prefetch": 0}])
def test_what_is_kept_is_not_read_again(tfrecords, monkeypatch, options):
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        loader = hio.torch.loader(data, 32, decode=number, epochs=3)
        before = [taken(loader) for _ in range(3)]
    with hio.open(tfrecords, seed=5, chunk_samples=16, cache="1MiB") as data:
        loader = hio.torch.loader(data, 32, decode=number, epochs=3, **options)
        assert [taken(loader) for _ in range(3)] == before
        whole = sum(map(os.path.getsize, glob(tfrecords)))
        assert data.stats()["node_bytes_read"] <= whole
        assert data.stats()["kept_bytes"] <= whole


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"threads": 3}, {"prefetch": 0}])
def test_every_sample_once_in_each_epoch(tfrecords, options):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        loader = hio.torch.loader(data, 32, decode=number, epochs=2, **options)
        first, second = taken(loader), taken(loader)
        for epoch in (first, second):
            assert sorted(sum(epoch, [])) == list(range(300))
            assert len(epoch) == len(loader) == 10
        assert first != second
        assert data.stats()["samples"] == 600
        assert data.stats()["node_chunks"] == 2 * 19


@pytest.mark.parametrize("options", [{}, {"decode": number}, {"decode": number, "workers": 1}])
def test_an_error_of_the_reader_reaches_the_training_of_every_rank(tfrecords, failing_reader,
                                                                   options):
    def train(open, rank):
        with open(tfrecords, seed=1, chunk_samples=2) as data:
            loader = hio.torch.loader(data, 2, collate=list, **options)
            with pytest.raises(Exception, match=failing_reader):
                list(loader)
            return True

    assert succeeded(in_job(2, train)) == [True, True]


@pytest.mark.parametrize("is_cached", [True, False])
def test_samples_are_counted_by_where_they_come_from(tfrecords, monkeypatch, is_cached):
    """What tmp_path is on can tell what is in the page cache."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", is_cached)
    with keep_cached(*glob(tfrecords)), hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        loader = hio.torch.loader(data, 32, decode=number, epochs=1)
        assert sorted(sum(taken(loader), [])) == list(range(300))
        stats = data.stats()
    # What frames a record is 16 bytes; of 19 chunks, two are in two files each.
    read = sum(len(record) + 16 for record in records(300)) - 16 * (19 + 2)
    from_cache, from_storage = (read, 0) if is_cached else (0, read)
    assert stats["node_cached_bytes"] == from_cache and stats["node_bytes_read"] == from_storage
    assert stats["samples_from_storage"] == (0 if is_cached else 300)


def batches_of_bytes(path: str, **options) -> list[list[bytes]]:
    with hio.open(path, seed=5, chunk_samples=16, **options) as data:
        return [list(batch) for batch in hio.torch.loader(data, 32, epochs=1)]


@pytest.mark.parametrize("is_cached", [True, False])
def test_plain_samples_are_the_records(tfrecords, monkeypatch, is_cached):
    """As bytes objects of their own, also those of no bytes and of equal contents."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", is_cached)
    batches = batches_of_bytes(tfrecords)
    assert len(batches) == 10
    assert sorted(sum(batches, [])) == sorted(records(300))
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        decoded = [batch for batch in hio.torch.loader(data, 32, decode=lambda one: bytes(one.data),
                                                       epochs=1)]
    assert batches == [list(batch) for batch in decoded]


def test_a_damaged_plain_sample_is_left_out(tfrecords, tmp_path):
    whole = sum(batches_of_bytes(tfrecords), [])
    damaged = records(300)[7]
    path = tmp_path / "0.tfrecord"
    place, changed = path.read_bytes().index(damaged), path.stat().st_mtime_ns
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes([damaged[0] ^ 1]))
    os.utime(path, ns=(changed, changed))  # no one sees by the file that it is another
    with hio.open(tfrecords, seed=5, chunk_samples=16, bad="skip") as data:
        left = sum((list(batch) for batch in hio.torch.loader(data, 32, epochs=1)), [])
        assert data.holes == {0: [7]}
    whole.remove(damaged)
    assert left == whole


def test_the_order_is_that_of_the_seed(tfrecords):
    def epoch(seed: int) -> list[list[int]]:
        with hio.open(tfrecords, seed=seed, chunk_samples=16) as data:
            return taken(hio.torch.loader(data, 32, decode=number))

    assert epoch(1) == epoch(1) != epoch(2)


def test_without_shuffle_in_the_order_of_the_data(tfrecords):
    with hio.open(tfrecords, shuffle=False) as data:
        assert sum(taken(hio.torch.loader(data, 32, decode=number)), []) == list(range(300))


def test_where_a_remainder_is_dropped_the_next_epoch_comes(tfrecords):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        loader = hio.torch.loader(data, 70, decode=number, last="drop")
        first = taken(loader)
        assert (data.epoch, data.position) == (1, 0)
        state = data.state_dict()
        second = taken(loader)
        assert [len(batch) for batch in first + second] == [70] * 8
        assert first != second
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        data.load_state_dict({**state, "epoch": 0, "position": 280})  # 20 samples are left
        assert taken(hio.torch.loader(data, 70, decode=number, last="drop")) == second


def test_what_a_batch_says_of_itself(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        infos = [info for _, info in hio.torch.loader(data, 70, decode=number, with_info=True)]
    assert [info.size for info in infos] == [70, 70, 70, 45, 45]
    assert [info.start for info in infos] == [0, 70, 140, 210, 255]
    assert [info.weight for info in infos] == [1.0] * 5
    assert [info.step for info in infos] == list(range(5))


def test_workers_draw_the_same_random_numbers_as_threads(tfrecords):
    def drawn(**options) -> torch.Tensor:
        with hio.open(tfrecords, seed=5) as data:
            return torch.cat([torch.stack([batch[0].double(), batch[1]])
                              for batch in hio.torch.loader(data, 32, decode=numbers_and_randoms,
                                                            **options)], dim=1)

    assert torch.equal(drawn(), drawn(workers=2))
    assert len(set(drawn()[1].tolist())) == 300


def test_workers_seed_pytorch_by_the_sample(tfrecords):
    def drawn(workers: int) -> list[float]:
        with hio.open(tfrecords, seed=5) as data:
            loader = hio.torch.loader(data, 32, decode=numbers_and_randoms, workers=workers)
            return torch.cat([batch[2] for batch in loader]).tolist()

    assert drawn(1) == drawn(2)
    assert len(set(drawn(1))) == 300


def test_seeding_a_sample_asks_no_device(tfrecords, monkeypatch):
    """torch.manual_seed() does, 0.5 ms long: a worker's beginning calls it, but no sample."""
    calls, manual_seed = [], torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (calls.append(seed), manual_seed(seed)))
    with hio.open(tfrecords, seed=5) as data:
        loader = hio.torch.loader(data, 32, decode=lambda _: len(calls), workers=1, epochs=1)
        assert len(set(torch.cat(list(loader)).tolist())) == 1


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_before_an_error_come_though_threads_decode_the_next_one(tfrecords, prefetch):
    def decode(sample: hio.Sample) -> int:
        if sample.number == 70:
            raise KeyError("shape")
        return sample.number

    with hio.open(tfrecords, shuffle=False) as data:
        loop, numbers = iter(hio.torch.loader(data, 32, decode=decode, threads=2,
                                              prefetch=prefetch)), []
        with pytest.raises(hio.DataError, match="sample 70 "):
            for batch in loop:
                numbers += batch.tolist()
        assert numbers == list(range(64)) and data.position == 64


def test_batches_before_a_damaged_record_come_though_threads_read_the_next_one(tfrecords):
    hio.open(tfrecords).close()
    damage(tfrecords)
    with hio.open(tfrecords, shuffle=False) as data:
        numbers = []
        with pytest.raises(hio.DataError, match="its checksum is not the one"):
            for batch in hio.torch.loader(data, 8, decode=number, threads=2):
                numbers += batch.tolist()
        assert len(numbers) >= 100 and numbers == list(range(len(numbers)))
        assert data.position == len(numbers) // 8 * 8


def test_threads_decode_a_batch_while_the_one_before_is_collated(tfrecords):
    """Else they have nothing to do for so long. The first batch is made alone, to see whether
    `decode` draws random numbers."""
    decoded = {first: threading.Event() for first in range(0, 300, 50)}

    def decode(sample: hio.Sample) -> int:
        if sample.number in decoded:
            decoded[sample.number].set()
        return sample.number

    def collate(numbers: list[int]) -> list[int]:
        following = numbers[0] + 50
        assert following in (50, 300) or decoded[following].wait(MINUTE)
        return numbers

    with hio.open(tfrecords, shuffle=False) as data:
        loader = hio.torch.loader(data, 50, decode=decode, collate=collate, threads=2, epochs=1)
        assert sum((list(batch) for batch in loader), []) == list(range(300))


@pytest.mark.parametrize("options", [{}, {"workers": 2}])
def test_goes_on_where_the_state_was_saved(tfrecords, options):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        loop = iter(hio.torch.loader(data, 32, decode=number, **options))
        before = [next(loop).tolist() for _ in range(4)]
        state = json.loads(json.dumps(data.state_dict()))
        rest = taken(loop)
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        data.load_state_dict(state)
        loader = hio.torch.loader(data, 32, decode=number, **options)
        assert taken(loader) == rest
        assert sorted(sum(before + rest, [])) == list(range(300))
        assert sorted(sum(taken(loader), [])) == list(range(300))
        assert data.state_dict()["epoch"] == 2


def test_a_loop_that_was_left_early_begins_anew(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        loader = hio.torch.loader(data, 32, decode=number)
        for first in loader:
            break
        again = taken(loader)
        assert again[0] == first.tolist()
        assert len(again) == len(loader)


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"workers": 2, "context": "fork"}])
@pytest.mark.parametrize("where", ["in the body", "in a wait"])
def test_a_loop_after_an_interrupt_is_whole(tfrecords, options, where):
    """Of a notebook: all processes of its group hear it."""
    import signal

    others = psutil.Process().children()  # of tests, which are to go on
    with hio.open(tfrecords, seed=5) as data:
        loader = hio.torch.loader(data, 32, decode=number, **options)
        batches = iter(loader)
        next(batches)
        with pytest.raises(KeyboardInterrupt):
            for worker in psutil.Process().children():
                if worker not in others:
                    worker.send_signal(signal.SIGINT)
                    wait_until(lambda: worker.status() == psutil.STATUS_ZOMBIE)
            if where == "in a wait":
                batches.throw(KeyboardInterrupt)
            raise KeyboardInterrupt
        del batches
        assert sorted(sum(taken(loader), [])) == list(range(300))


def test_a_loop_that_was_left_goes_on_where_the_state_says(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        loader, before = hio.torch.loader(data, 32, decode=number), []
        for batch in itertools.islice(loader, 4):
            before += batch.tolist()
        data.load_state_dict(data.state_dict())
        assert sorted(before + sum(taken(loader), [])) == list(range(300))


def test_a_state_of_another_order_is_refused(tfrecords):
    with hio.open(tfrecords, seed=5) as data, hio.open(tfrecords, seed=6) as other:
        with pytest.raises(hio.InputError, match="seed: 5 in the state, 6 here"):
            other.load_state_dict(data.state_dict())


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_that_has_nothing_of_a_masked_step_goes_on(tmp_path, ranks):
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) for i in range(4 * ranks + 1)])

    def run(open_data, rank):
        with open_data(path) as data:
            options = {"last": "mask", "epochs": 1}
            pairs = list(hio.torch.loader(data, 4, with_info=True, **options))
            others = list(torch.utils.data.DataLoader(
                hio.torch.Dataset(data), collate_fn=list,
                batch_sampler=hio.torch.BatchSampler(data, 4, **options)))
            return pairs[-1], len(pairs), others[-1], len(others)

    results = succeeded(in_job(ranks, run))
    assert sorted(info.size for (_, info), *_ in results) == [0] * (ranks - 1) + [1]
    for (batch, info), steps, other, other_steps in results:
        assert steps == other_steps == 2 and info.slots == 4
        assert batch in (None, []) if info.size == 0 else len(batch) == 1
        assert len(other) <= 1


def damage(tfrecords: str, keep_times: bool = True) -> None:
    import os
    from pathlib import Path

    path = Path(tfrecords).with_name("1.tfrecord")
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_damaged_record_is_an_error_that_names_it(tfrecords):
    hio.open(tfrecords).close()
    damage(tfrecords)
    with hio.open(tfrecords, seed=5) as data:
        with pytest.raises(hio.DataError, match=r"1\.tfrecord, offset \d+, sample 1\d\d: its "
                                                "checksum is not the one that was indexed"):
            taken(hio.torch.loader(data, 32, decode=number))


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_a_damaged_record_can_be_left_out(tfrecords, options):
    hio.open(tfrecords).close()
    damage(tfrecords)
    with hio.open(tfrecords, seed=5, bad="skip") as data:
        batches, infos = zip(*hio.torch.loader(data, 32, decode=number, epochs=1, with_info=True,
                                               **options))
        hole, = data.holes[0]
        assert sorted(torch.cat(batches).tolist()) == [i for i in range(300) if i != hole]
        short, = (info for info in infos if info.weight != 1)
        assert (short.size, short.weight) == (short.end - short.start - 1,
                                              short.size / (short.end - short.start))
        assert json.loads(json.dumps(data.state_dict()))["holes"] == {"0": [hole]}


def test_a_batch_of_holes_only_has_no_weight(tfrecords):
    hio.open(tfrecords).close()
    damage(tfrecords)
    with hio.open(tfrecords, shuffle=False, bad="skip") as data:
        batches = list(hio.torch.loader(data, 1, decode=number, with_info=True))
    assert len(batches) == 300
    (batch, info), = (pair for pair in batches if not pair[1].weight)
    assert batch is None and info.size == 0


def test_an_error_of_decode_names_the_sample(tfrecords):
    def decode(sample: hio.Sample) -> int:
        if number(sample) == 7:
            raise KeyError("shape")
        return 1

    with hio.open(tfrecords, seed=5) as data:
        with pytest.raises(hio.DataError, match=r"sample 7 .*0\.tfrecord: KeyError: 'shape'"):
            list(hio.torch.loader(data, 32, decode=decode))


@pytest.mark.parametrize("workers", [0, 2])
def test_pytorchs_own_loader(tfrecords, workers):
    with hio.open(tfrecords, seed=5) as data:
        expected = taken(hio.torch.loader(data, 32, decode=number, epochs=1))
    with hio.open(tfrecords, seed=5) as data:
        sampler = hio.torch.BatchSampler(data, 32)
        loader = torch.utils.data.DataLoader(hio.torch.Dataset(data, number),
                                             batch_sampler=sampler, num_workers=workers)
        assert len(loader) == 10
        assert taken(loader) == expected
        assert data.state_dict()["epoch"] == 1


def test_one_sample_of_a_data_set(tfrecords):
    with hio.open(tfrecords) as data:
        samples = hio.torch.Dataset(data)
        assert len(samples) == 300
        assert samples[7] == samples[-293] == records(300)[7]
        with pytest.raises(IndexError, match="sample 300 of 300"):
            samples[300]


def plain_batches(pattern, **options) -> list:
    with hio.open(pattern, shuffle=False) as data:
        return list(hio.torch.loader(data, 2, **options))


def test_a_tar_gives_its_parts(tmp_path):
    tar(tmp_path / "a.tar", [(f"{i}.{part}", f"{part}{i}".encode())
                             for i in range(4) for part in ("jpg", "cls")])
    batches = plain_batches(tmp_path / "a.tar")
    assert [batch["__key__"] for batch in batches] == [["0", "1"], ["2", "3"]]
    assert [batch["jpg"] for batch in batches] == [[b"jpg0", b"jpg1"], [b"jpg2", b"jpg3"]]
    assert [batch["cls"] for batch in batches] == [[b"cls0", b"cls1"], [b"cls2", b"cls3"]]


def test_a_folder_of_classes_gives_labels(tmp_path):
    files(tmp_path / "data", {f"{kind}/{i}.jpg": f"{kind}{i}".encode()
                              for kind in ("cat", "dog") for i in range(2)})
    batches = plain_batches(tmp_path / "data")
    assert [list(batch[0]) for batch in batches] == [[b"cat0", b"cat1"], [b"dog0", b"dog1"]]
    assert [batch[1].tolist() for batch in batches] == [[0, 0], [1, 1]]


def test_an_lmdb_gives_its_values(tmp_path):
    environment(tmp_path / "db", {f"{i}".encode(): f"value{i}".encode() for i in range(4)})
    assert [list(batch) for batch in plain_batches(tmp_path / "db")] == [
        [b"value0", b"value1"], [b"value2", b"value3"]]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_share_an_epoch(tfrecords, size):
    through = threading.Barrier(size)

    def run(open_data, rank):
        data = open_data(tfrecords, seed=5, chunk_samples=16)
        loader = hio.torch.loader(data, 16, decode=number, epochs=2, with_info=True)
        epochs = [[(batch.tolist(), info.weight) for batch, info in loader] for _ in range(2)]
        through.wait(MINUTE)  # what another rank still takes is perhaps not read yet
        stats = data.stats()
        data.close()
        return epochs, stats

    results = succeeded(in_job(size, run))
    for epoch in range(2):
        of_ranks = [epochs[epoch] for epochs, _ in results]
        assert {len(batches) for batches in of_ranks} == {len(of_ranks[0])}
        numbers = sorted(n for batches in of_ranks for batch, _ in batches for n in batch)
        assert numbers == list(range(300))
        for step in zip(*of_ranks):
            assert sum(weight for _, weight in step) == pytest.approx(size)
    # One reader for all of them: each byte was read once an epoch, in 19 chunks, two of them in two
    # files each. What frames a record is 16 bytes; the outer ones of a piece are not read.
    pieces = 19 + 2
    read = sum(len(record) + 16 for record in records(300)) - 16 * pieces
    assert {stats["node_bytes_read"] + stats["node_cached_bytes"] for _, stats in results} == {
        2 * read}


def test_the_same_batches_for_any_number_of_ranks(tfrecords):
    def batches(size: int) -> list[list[int]]:
        def run(open_data, rank):
            data = open_data(tfrecords, seed=5, chunk_samples=16)
            shares = taken(hio.torch.loader(data, global_batch_size=24, decode=number, epochs=1))
            data.close()
            return shares

        return [sorted(sum(step, [])) for step in
                zip(*succeeded(in_job(size, run)))]

    of_one_rank = batches(1)
    assert len(of_one_rank) == 13
    for size in (2, 3, 4):
        assert batches(size) == of_one_rank


@pytest.mark.parametrize("options, message", [
    ({"seed": lambda rank: rank}, "seed differs between the ranks: 0 on rank 0; 1 on rank 1"),
    ({"memory": lambda rank: "1GiB" if rank else None}, "memory differs between the ranks"),
    ({"bad": lambda rank: "ignore" if rank else "raise"}, "rank 1: bad='ignore'; remedy: one of"),
])
def test_ranks_that_differ_all_get_the_same_error(tfrecords, options, message):
    errors = in_job(2, lambda open_data, rank: open_data(
        tfrecords, **{name: value(rank) for name, value in options.items()}))
    assert [type(error) for error in errors] == [hio.InputError] * 2
    assert str(errors[0]) == str(errors[1])
    assert message in str(errors[0])


def test_ranks_whose_loaders_differ_all_get_the_same_error(tfrecords):
    errors = in_job(2, lambda open_data, rank: hio.torch.loader(
        open_data(tfrecords), 16 + rank))
    assert [type(error) for error in errors] == [hio.InputError] * 2
    assert "batch_size differs between the ranks: 16 on rank 0; 17 on rank 1" in str(errors[0])
    assert str(errors[0]) == str(errors[1])


def test_too_little_memory_is_refused_with_both_figures(tfrecords):
    errors = in_job(2, lambda open_data, rank: hio.torch.loader(
        open_data(tfrecords, memory=20000, chunk_samples=16), 16))
    assert {type(error) for error in errors} == {hio.InputError}
    assert "memory=19.53 KiB is less than the " in str(errors[1])
    assert "that shards=1 and window=1 need at once" in str(errors[1])


@pytest.mark.parametrize("memory", ["much", "-1", 0, True, "1XB"])
def test_memory_that_is_none(tfrecords, memory):
    with pytest.raises(hio.InputError, match="memory="):
        hio.open(tfrecords, memory=memory)


def test_no_data_is_the_same_error_on_all_ranks(tmp_path):
    errors = in_job(3, lambda open_data, rank: open_data(
        str(tmp_path / "*.tfrecord")))
    assert {type(error) for error in errors} == {hio.DataError}
    assert len({str(error) for error in errors}) == 1
    assert "no such files; remedy:" in str(errors[0])


@pytest.mark.parametrize("options", [{"workers": -1}, {"threads": 0}, {"prefetch": -1},
                                     {"prefetch": 0, "workers": 1},
                                     {"workers": 1, "threads": 2}, {"last": "none"},
                                     {"global_batch_size": 4}])
def test_arguments_that_are_none(tfrecords, options):
    with hio.open(tfrecords) as data:
        with pytest.raises(hio.InputError, match=f"{next(iter(options))}="):
            hio.torch.loader(data, 16, **options)


def test_files_that_changed_are_indexed_anew(tfrecords, capfd):
    hio.open(tfrecords).close()
    damage(tfrecords, keep_times=False)
    with pytest.warns(UserWarning, match="damaged"):
        hio.open(tfrecords).close()
    assert "this index is of other files: 1.tfrecord" in capfd.readouterr().err


def sums(samples: hio.SampleBatch) -> torch.Tensor:
    return torch.tensor([sum(sample) for sample in samples])


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"prefetch": 0}])
def test_a_whole_batch_is_decoded_at_once(tfrecords, options):
    with hio.open(tfrecords, seed=5) as data:
        expected = taken(hio.torch.loader(data, 32, decode=lambda sample: sum(sample.data)))
    with hio.open(tfrecords, seed=5) as data:
        batches = list(hio.torch.loader(data, 32, decode_batch=sums, with_info=True, **options))
        assert [batch.tolist() for batch, _ in batches] == expected
        assert [info.step for _, info in batches] == list(range(10))


def test_what_decode_batch_gets(tmp_path):
    files(tmp_path / "data", {f"{kind}/{i}.jpg": f"{kind}{i}".encode() * (i + 1)
                              for kind in ("cat", "dog") for i in range(2)})
    arguments = []
    with hio.open(tmp_path / "data", seed=3) as data:
        batch, = hio.torch.loader(
            data, 4, decode_batch=lambda samples: arguments.append(samples) or 1)
        one_by_one, = hio.torch.loader(data, 4, decode=lambda sample: sample, collate=list)
        assert batch == 1
    samples, = arguments
    assert len(samples) == 4 and samples.epoch == 0
    stored = [b"cat0", b"cat1cat1", b"dog0", b"dog1dog1"]
    for i, number in enumerate(samples.numbers.tolist()):
        begin, size = samples.begin[i, 0], samples.size[i, 0]
        assert bytes(samples.buffer[begin:begin + size]) == samples[i] == stored[number]
        assert samples.labels[i] == number // 2
        assert samples.keys[i] == ["cat/0.jpg", "cat/1.jpg", "dog/0.jpg", "dog/1.jpg"][number]
    assert list(samples) == [samples[i] for i in range(4)]
    with pytest.raises(hio.DataError, match="4 to 8 bytes"):
        samples.stacked()
    # The same samples one by one; the second epoch has the same data in another order.
    assert {(sample.number, sample.key, sample.label, sample.data) for sample in one_by_one} == {
        (number, samples.keys[i], samples.labels[i], bytes(samples[i]))
        for i, number in enumerate(samples.numbers.tolist())}
    assert [sample.epoch for sample in one_by_one] == [1] * 4


def test_samples_of_equal_size_are_one_array(tmp_path):
    stored = np.random.default_rng(0).integers(0, 256, (64, 5), np.uint8)
    tfrecord(tmp_path / "a.tfrecord", [row.tobytes() for row in stored])
    with hio.open(tmp_path / "a.tfrecord", seed=1) as data:
        for batch in hio.torch.loader(
                data, 8, decode_batch=lambda samples: (samples.stacked(), samples.numbers)):
            array, numbers = batch
            assert (array == stored[numbers]).all() and array.shape == (8, 5)
        for batch in hio.torch.loader(data, 8, decode_batch=lambda samples: torch.from_numpy(
                samples.stacked())):
            batch += 1  # it is the training's own
    assert plain_batches(tmp_path / "a.tfrecord")[1] == [stored[2].tobytes(), stored[3].tobytes()]


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_decode_batch_gets_no_damaged_sample(tfrecords, options):
    hio.open(tfrecords).close()
    damage(tfrecords)
    with hio.open(tfrecords, shuffle=False, bad="skip") as data:
        batches, infos = zip(*hio.torch.loader(data, 32, decode_batch=sums, epochs=1,
                                               with_info=True, **options))
        hole, = data.holes[0]
        assert torch.cat(batches).tolist() == [
            sum(record) for i, record in enumerate(records(300)) if i != hole]
        assert infos[hole // 32].size == 31


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_collate_names_the_samples(tfrecords, workers):
    """PyTorch's own, here, which cannot stack samples of other sizes."""
    with hio.open(tfrecords, shuffle=False) as data, pytest.raises(hio.DataError, match=(
            r"collating step 0 of epoch 0, samples \[0, 1, 2\]: RuntimeError: .*equal size.*; "
            "remedy: correct collate=, or the samples")):
        list(hio.torch.loader(data, 3, epochs=1, workers=workers,
                              decode=lambda sample: torch.zeros(sample.number)))


def test_an_error_of_decode_batch_names_the_step(tfrecords):
    def fails(samples: hio.SampleBatch) -> None:
        raise KeyError("shape")

    with hio.open(tfrecords, shuffle=False) as data:
        with pytest.raises(hio.DataError, match=r"step 0 of epoch 0, samples \[0, 1, .*'shape'"):
            list(hio.torch.loader(data, 32, decode_batch=fails))


@pytest.mark.parametrize("other", [{"decode": number}, {"collate": list}, {"threads": 2}])
def test_decode_batch_makes_the_whole_batch(tfrecords, other):
    with hio.open(tfrecords) as data:
        with pytest.raises(hio.InputError, match=f"was given with {next(iter(other))}; remedy"):
            hio.torch.loader(data, 16, decode_batch=sums, **other)


def test_seeds_depend_on_seed_epoch_and_position_alone(tfrecords):
    def run(open_data, rank):
        data = open_data(tfrecords, seed=5, chunk_samples=16)
        loader = hio.torch.loader(
            data, global_batch_size=24, collate=list, epochs=2,
            decode=lambda sample: (sample.epoch, sample.position, sample.seed))
        samples = [sample for _ in range(2) for batch in loader for sample in batch]
        data.close()
        return samples

    def seeds(ranks: int) -> dict[tuple[int, int], int]:
        return {(epoch, position): seed
                for samples in succeeded(in_job(ranks, run))
                for epoch, position, seed in samples}

    of_one = seeds(1)
    assert len(of_one) == len(set(of_one.values())) == 600
    assert seeds(3) == of_one


def test_samples_can_be_sent_to_other_processes(tfrecords):
    with hio.open(tfrecords, shuffle=False) as data:
        loader = hio.torch.loader(data, 32, decode=lambda sample: sample, collate=list, workers=1)
        samples = [sample for batch in loader for sample in batch]
    assert [sample.data for sample in samples] == records(300)
    assert [sample.position for sample in samples] == list(range(300))
