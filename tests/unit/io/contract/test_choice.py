"""Some of the samples and parts: each chosen one comes exactly once an epoch, and nothing else."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from data_sets import environment, files, framed, tar, tfrecord
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io import index as indexes
from horovod_opt.io.index import verification

PARTS = ("jpg", "cls", "json")


def contents(number: int, part: str = "") -> bytes:
    return f"{number} {part}".encode() * (number % 4)


def identity(sample: hio.Sample) -> tuple[str, dict[str, bytes]]:
    return sample.key, dict(sample.parts)


class Case(NamedTuple):
    """A tar or two, of samples of which each has some of PARTS, and what is wanted of them."""

    had: list[set[str]]
    cut: int
    parts: Any
    lacking: str
    choose: Any
    ranks: int
    workers: int
    batch: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    had = draw(st.lists(st.sets(st.sampled_from(PARTS), min_size=1), min_size=1, max_size=30))
    numbers = draw(st.sets(st.integers(0, len(had) - 1)))
    choose = draw(st.sampled_from([
        None, "*[02468]", ["!*3", "!*7"], ["*1*", "*2*", "!*5"],
        lambda table: [int(key) in numbers for key in table.keys],
        lambda table: np.array(sorted(numbers), np.int64),
        lambda table: ~table.lacks[:, 0]]))
    return Case(had, draw(st.integers(0, len(had))),
                draw(st.none() | st.permutations(PARTS).map(lambda parts: parts[:2])),
                draw(st.sampled_from(["raise", "skip", "keep", "keep"])), choose,
                draw(st.integers(1, 3)), draw(st.sampled_from([0] * 7 + [1])),
                draw(st.integers(1, 5)))


def wanted(case: Case) -> Any:
    """By key; an error's type."""
    had = {f"{i:02d}": {part: contents(i, part) for part in PARTS if part in parts}
           for i, parts in enumerate(case.had)}
    names = list(dict.fromkeys(part for sample in had.values() for part in sample))
    keys = list(had)
    if callable(case.choose):
        class Table:
            pass

        table = Table()
        table.keys = keys
        table.lacks = np.array([[name not in sample for name in names] for sample in had.values()])
        answer = np.asarray(case.choose(table))
        keys = [keys[i] for i in (np.flatnonzero(answer) if answer.dtype == bool else answer)]
    elif case.choose is not None:
        texts = [case.choose] if isinstance(case.choose, str) else case.choose
        yes = [text for text in texts if text[0] != "!"]
        no = [text[1:] for text in texts if text[0] == "!"]
        keys = [key for key in keys
                if (not yes or any(Path(key).match(text) for text in yes))
                and not any(Path(key).match(text) for text in no)]
    chosen = {key: had[key] for key in keys}
    if case.parts is not None:
        if set(case.parts) - set(names):
            return hio.InputError
        chosen = {key: {part: sample[part] for part in case.parts if part in sample}
                  for key, sample in chosen.items()}
        whole = set(case.parts)
    else:
        whole = {part for sample in chosen.values() for part in sample}
    if case.lacking == "skip":
        chosen = {key: sample for key, sample in chosen.items() if set(sample) == whole}
    elif case.lacking == "raise" and any(set(sample) != whole for sample in chosen.values()):
        return hio.DataError
    if case.lacking == "keep" and len(whole) == 1 and any(
            set(sample) != whole for sample in chosen.values()):
        return hio.InputError
    return chosen or hio.DataError


def take(open_data, pattern: Path, case: Case) -> list:
    options = {"parts": case.parts, "lacking": case.lacking, "choose": case.choose}
    with open_data(pattern, seed=2, chunk_samples=3, threads=1, **options) as data:
        loader = hio.torch.loader(data, case.batch, decode=identity, collate=list, epochs=1)
        taken = next(iter(loader)) if len(data) >= case.ranks else []
        state = json.loads(json.dumps(data.state_dict()))
    with open_data(pattern, seed=2, chunk_samples=3, threads=1, **options) as data:
        data.load_state_dict(state)
        epochs = 1 if data.epoch == 0 else 0
        if epochs:
            loader = hio.torch.loader(data, case.batch, decode=identity, collate=list, epochs=1,
                                      workers=case.workers)
            taken = taken + [sample for batch in loader for sample in batch]
        return taken


@settings(max_examples=25, deadline=None, derandomize=True)
@given(cases())
def test_each_chosen_sample_once(case):
    pytest.importorskip("torch")
    with tempfile.TemporaryDirectory() as folder:
        members = [[(f"{i:02d}.{part}", contents(i, part)) for part in PARTS if part in parts]
                   for i, parts in enumerate(case.had)]
        for name, samples in (("a", members[:case.cut]), ("b", members[case.cut:])):
            tar(Path(folder, f"{name}.tar"), [member for sample in samples for member in sample])
        expected = wanted(case)
        if isinstance(expected, dict) and len(expected) < case.ranks:
            return
        results = in_job(case.ranks, lambda open_data, rank: take(
            open_data, Path(folder, "*.tar"), case))
        if not isinstance(expected, dict):
            assert {type(result) for result in results} == {expected}, results
            assert len({str(result) for result in results}) == 1
            assert "; remedy: " in str(results[0])
            return
        taken = [sample for samples in succeeded(results) for sample in samples]
        assert len(taken) == len(expected) and dict(taken) == expected


@pytest.mark.parametrize("choose", ["*.jpg", ["!*/Thumbs.db", "!*.txt"],
                                    lambda table: table.size[:, 0] > 5])
def test_files_of_a_folder(tmp_path, choose):
    files(tmp_path / "d", {**{f"{kind}/{i}.jpg": b"%d contents" % i for kind in ("cat", "dog")
                              for i in range(4)}, "cat/Thumbs.db": b"x", "dog/a.txt": b"y"})
    with hio.open(tmp_path / "d", choose=choose) as data:
        loader = hio.torch.loader(data, 3, epochs=1, collate=list,
                                  decode=lambda sample: (sample.key, sample.label, sample.data))
        samples = [sample for batch in loader for sample in batch]
    assert sorted(samples) == [(f"{kind}/{i}.jpg", label, b"%d contents" % i)
                               for label, kind in enumerate(("cat", "dog")) for i in range(4)]


def test_an_lmdb_without_the_key_that_counts(tmp_path):
    path = environment(tmp_path / "db", {b"__len__": b"3", **{b"%d" % i: b"v%d" % i
                                                              for i in range(3)}})
    with hio.open(path, choose="!__*__") as data:
        assert sorted(sum(hio.torch.loader(data, 2, collate=list, epochs=1), [])) == [
            b"v0", b"v1", b"v2"]
        assert [hio.torch.Dataset(data)[i] for i in range(3)] == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("source", ["kernel", "generator"], indirect=True)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_tensorflow_gets_the_same(tmp_path, source, ranks):
    pytest.importorskip("tensorflow")
    members = [(f"{i:02d}.{part}", contents(i, part)) for i in range(20)
               for part in ("jpg", "cls") if part == "jpg" or i % 3]
    path = tar(tmp_path / "a.tar", members)

    def run(open_data, rank):
        samples = []
        with open_data(path, lacking="keep", choose="!*5") as data:
            for batch in hio.tensorflow.dataset(data, 2, epochs=1):
                samples += zip(*(batch[part].numpy().tolist() for part in ("jpg", "cls")))
        return samples

    samples = [sample for rank in succeeded(in_job(ranks, run)) for sample in rank]
    assert sorted(samples) == sorted((contents(i, "jpg"), contents(i, "cls") if i % 3 else b"")
                                     for i in range(20) if i % 10 != 5)


@pytest.mark.parametrize("options, text", [
    ({"parts": ()}, "parts=.*remedy: names such as"),
    ({"parts": "png"}, "no part 'png', but jpg, cls"),
    ({"parts": ("jpg", "jpg")}, "parts=.*remedy"),
    ({"lacking": "none"}, "lacking='none'; remedy: one of raise, skip, keep"),
    ({"choose": "!"}, "choose=.*remedy: patterns of keys"),
    ({"choose": [3]}, "choose=.*remedy: patterns of keys"),
    ({"choose": 3}, "choose=.*remedy: patterns of keys"),
    ({"parts": 3}, "parts=.*remedy: names such as"),
    ({"choose": "*.png"}, "leave none of 4 samples, as '0', '1', '2'; remedy"),
    ({"choose": lambda table: [True]}, r"choose= returned bool\[1\] for 4 samples; .*bool\[4\]"),
    ({"choose": lambda table: [0, 0]}, r"choose= returned int64\[2\] for 4 samples"),
    ({"choose": lambda table: [4]}, r"choose= returned int64\[1\] for 4 samples")])
def test_what_is_no_choice(tmp_path, options, text):
    path = tar(tmp_path / "a.tar", [(f"{i}.{part}", b"x") for i in range(4)
                                    for part in ("jpg", "cls")])
    results = in_job(2, lambda open_data, rank: open_data(path, **options))
    assert len({str(result) for result in results}) == 1
    with pytest.raises(hio.DataError, match=text):
        raise results[0]


def test_parts_are_those_of_tars(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [b"x"])
    with pytest.raises(hio.InputError, match="only those of tars have parts, and this is tfrecord"):
        hio.open(path, parts="jpg")


def test_ranks_that_choose_differently(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [b"x"] * 9)
    results = in_job(2, lambda open_data, rank: open_data(
        path, choose=lambda table: np.arange(len(table)) > rank))
    assert {type(result) for result in results} == {hio.InputError}
    assert "have to say the same of all samples on every rank" in str(results[0])


def test_a_state_belongs_to_the_samples_that_were_chosen(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [b"x"] * 9)
    with hio.open(path, choose=lambda table: np.arange(8)) as data:
        state = data.state_dict()
    with hio.open(path, choose=lambda table: np.arange(1, 9)) as data:
        with pytest.raises(hio.InputError, match="digest"):
            data.load_state_dict(state)
    with hio.open(path, choose=lambda table: np.arange(9)) as data:
        assert data.index is data.index.whole
    with hio.open(path, choose=lambda table: np.arange(8)) as data:
        data.load_state_dict(state)
        copied = pickle.loads(pickle.dumps(data.index))
        assert copied.digest == data.index.digest and copied.fingerprint == data.index.fingerprint
        assert copied.offset.tolist() == data.index.offset.tolist()


# Files that end too early.


@pytest.fixture
def shards(tmp_path) -> Path:
    """Three of five records, the second of which ends in the middle of its fourth."""
    for shard in range(3):
        tfrecord(tmp_path / f"{shard}.tfrecord", [bytes([5 * shard + i]) * 9 for i in range(5)])
    os.truncate(tmp_path / "1.tfrecord", 3 * len(framed(bytes(9))) + 5)
    return tmp_path / "*.tfrecord"


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_good_records_of_a_truncated_shard(shards, ranks, capfd):
    def run(open_data, rank):
        with pytest.raises(hio.DataError, match=r"1\.tfrecord: truncated: record 3, .*bad='skip'"):
            open_data(shards)
        with open_data(shards, bad="skip") as data:
            batches = hio.torch.loader(data, 2, decode=lambda sample: sample.data[0], collate=list,
                                       epochs=1)
            taken = [number for batch in batches for number in batch]
        with pytest.raises(hio.DataError, match=r"1\.tfrecord: truncated: record 3, .*bad='skip'"):
            open_data(shards)  # though its index is there
        return taken

    taken = succeeded(in_job(ranks, run))
    assert sorted(sum(taken, [])) == [*range(8), *range(10, 15)]
    assert capfd.readouterr().err.count("1 files end too early, and what is behind is left out: "
                                        f"{shards.parent}/1.tfrecord: truncated: record 3") == 1


def test_an_index_of_truncated_files_is_kept_and_verified(shards):
    built = indexes.build(shards, keep_truncated=True)
    loaded = indexes.load(shards)
    assert loaded.truncated == built.truncated and len(loaded.truncations) == 1
    assert loaded.truncations[0].startswith(f"{shards.parent}/1.tfrecord: truncated: record 3")
    assert verification.verify(loaded) == []
    tfrecord(shards.parent / "1.tfrecord", [bytes(9)] * 5)  # copied again
    with pytest.raises(hio.Stale):
        indexes.load(shards)


def test_a_file_without_a_good_record_is_no_shard(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"x" * 100)
    with pytest.raises(hio.DataError, match="record 0, at byte 0"):
        hio.open(tmp_path / "a.tfrecord", bad="skip")
