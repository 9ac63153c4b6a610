"""The files and the pipelines of the suite stream."""

from __future__ import annotations

import itertools
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.stream import consumer
from horovod_lab.io.suites.stream.consumer import WrongImages, measure
from horovod_lab.io.suites.stream.pipelines import PIPELINES, Shape

pytestmark = pytest.mark.usefixtures("library", "kernel")
COUNT, SIZE, PIXELS = 20, 12_000, 16


@pytest.fixture(scope="module")
def jpeg_folder(tmp_path_factory) -> Path:
    folder = jpegs.folder_of(tmp_path_factory.mktemp("data"), COUNT, SIZE)
    jpegs.write(folder, COUNT, SIZE)
    return folder


@pytest.fixture(params=PIPELINES)
def pipeline(request):
    return PIPELINES[request.param]


def test_files_are_different_jpegs_of_about_the_size(jpeg_folder):
    contents = [Path(path).read_bytes() for path in jpegs.names(jpeg_folder)]
    assert len(set(contents)) == COUNT
    assert statistics.median(map(len, contents)) == pytest.approx(SIZE, rel=0.2)
    assert {tf.io.extract_jpeg_shape(content)[2].numpy() for content in contents} == {3}


@pytest.mark.parametrize("size", [2000, 112_000, 1_000_000])
def test_a_shape_is_found_for_any_size(size):
    """For an encoder whose bytes grow with pixels and quality."""
    def encode(number: int, shape: jpegs.Shape) -> bytes:
        return bytes(int(shape.height * shape.width * shape.quality / 150 * (1 + number % 3 / 10)))

    shape = jpegs.fit_shape(encode, size)
    sizes = [len(encode(number, shape)) for number in range(jpegs.SAMPLES)]
    assert statistics.median(sizes) == pytest.approx(size, rel=0.03)
    assert shape.width / shape.height == pytest.approx(jpegs.WIDTH / jpegs.HEIGHT, rel=0.1)


@pytest.mark.parametrize("threads, prefetch", [(1, 0), (3, 2)])
def test_an_epoch_has_every_file_once(jpeg_folder, pipeline, threads, prefetch):
    contents = sorted(Path(path).read_bytes() for path in jpegs.names(jpeg_folder))
    with pipeline(jpeg_folder, Shape(threads, 8, prefetch, None)) as batches:
        epochs = [[batch.numpy().tolist() for batch in batches] for _ in range(2)]
    for epoch in epochs:
        assert sorted(sum(epoch, [])) == contents
    assert sum(epochs[0], []) != contents != sum(epochs[1], [])
    assert max(len(batch) for batch in epochs[0]) <= 10  # hio spreads the remainder


def test_images_are_decoded_and_resized(jpeg_folder, pipeline):
    with pipeline(jpeg_folder, Shape(2, 5, 0, PIXELS)) as batches:
        batch_list = list(batches)
    assert [batch.shape for batch in batch_list] == [(5, PIXELS, PIXELS, 3)] * 4
    assert len({float(tf.reduce_mean(image)) for batch in batch_list for image in batch}) == COUNT
    assert all(0 <= float(tf.reduce_min(batch)) <= float(tf.reduce_max(batch)) <= 1
               for batch in batch_list)


def test_threads_and_prefetching_are_those_that_were_asked_for(jpeg_folder, pipeline):
    with pipeline(jpeg_folder, Shape(3, 8, 0, PIXELS)) as batches:
        options = batches.options()
        assert options.threading.private_threadpool_size == 3
        assert options.experimental_optimization.inject_prefetch is False


@pytest.fixture
def ticks(monkeypatch):
    """The consumer's clock goes on by a second whenever it looks, however fast the machine is."""
    clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__,
                            process_time=time.process_time, sleep=time.sleep)
    monkeypatch.setattr(consumer, "time", clock)


def test_what_a_run_counts(jpeg_folder, pipeline, ticks):
    shape, paths = Shape(2, 5, 1, PIXELS), jpegs.names(jpeg_folder)
    calls = []
    with pipeline(jpeg_folder, shape) as batches:
        result = measure(batches, shape, paths, 1e-9, 0.0, lambda: calls.append(1))
        assert (result["images"], result["steps"], result["epochs"]) == (COUNT, 4, 1)
        result = measure(batches, shape, paths, 4 * result["seconds"], 0.0,
                         lambda: calls.append(1))
    assert (result["images"], result["steps"], result["epochs"]) == (4 * COUNT, 16, 4)
    assert len(calls) == 3
    assert 0 < result["waited_seconds"] <= result["seconds"]


def test_steps_take_their_time_and_do_not_wait_for_it(jpeg_folder, pipeline):
    shape = Shape(1, 5, 1, None)
    with pipeline(jpeg_folder, shape) as batches:
        result = measure(batches, shape, jpegs.names(jpeg_folder), 1e-9, 0.05)
    assert result["seconds"] - result["waited_seconds"] >= 4 * 0.05


def test_a_file_that_is_none_is_not_overlooked(jpeg_folder, tmp_path):
    """tf.data leaves it out."""
    paths = jpegs.names(jpeg_folder)
    for path in paths[:3]:
        (tmp_path / Path(path).name).write_bytes(Path(path).read_bytes())
    (tmp_path / "x.jpg").write_bytes(b"no JPEG")
    shape = Shape(1, 2, 0, PIXELS)
    with PIPELINES["tf-data"](tmp_path, shape) as batches, pytest.raises(
            WrongImages, match="3 images of 4 files; remedy: remove"):
        measure(batches, shape, jpegs.names(tmp_path), 1e-9, 0.0)


def test_bytes_that_are_missing_are_not_overlooked(jpeg_folder):
    paths = jpegs.names(jpeg_folder)
    shape = Shape(1, 5, 0, None)
    empty = tf.data.Dataset.from_tensor_slices([b""] * COUNT).batch(5)
    with pytest.raises(WrongImages, match="0 bytes of files that have"):
        measure(empty, shape, paths, 1e-9, 0.0)


def test_forgotten_files_can_still_be_read(jpeg_folder):
    consumer.forget(jpegs.names(jpeg_folder))
    assert Path(jpegs.names(jpeg_folder)[0]).read_bytes()[:2] == b"\xff\xd8"
