"""The files and the pipelines of the suite stream."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.stream import consumer
from horovod_lab.io.suites.stream.consumer import WrongImages, measure
from horovod_lab.io.suites.stream.pipelines import PIPELINES, Shape

COUNT, SIZE, PIXELS = 20, 12_000, 16


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = jpegs.folder_of(tmp_path_factory.mktemp("data"), COUNT, SIZE)
    jpegs.write(folder, COUNT, SIZE)
    return folder


@pytest.fixture(params=PIPELINES)
def pipeline(request):
    return PIPELINES[request.param]


def test_files_are_different_jpegs_of_about_the_size(written):
    found = [Path(path).read_bytes() for path in jpegs.names(written)]
    assert len(set(found)) == COUNT
    assert statistics.median(map(len, found)) == pytest.approx(SIZE, rel=0.2)
    assert {tf.io.extract_jpeg_shape(one)[2].numpy() for one in found} == {3}


@pytest.mark.parametrize("size", [2000, 112_000, 1_000_000])
def test_a_shape_is_found_for_any_size(size):
    """For an encoder whose bytes grow with pixels and quality."""
    def encoded(number: int, shape: jpegs.Shape) -> bytes:
        return bytes(int(shape.height * shape.width * shape.quality / 150 * (1 + number % 3 / 10)))

    shape = jpegs.fitted(encoded, size)
    sizes = [len(encoded(number, shape)) for number in range(jpegs.SAMPLES)]
    assert statistics.median(sizes) == pytest.approx(size, rel=0.03)
    assert shape.width / shape.height == pytest.approx(jpegs.WIDTH / jpegs.HEIGHT, rel=0.1)


@pytest.mark.parametrize("threads, prefetch", [(1, 0), (3, 2)])
def test_an_epoch_has_every_file_once(written, pipeline, threads, prefetch):
    expected = sorted(Path(path).read_bytes() for path in jpegs.names(written))
    with pipeline(written, Shape(threads, 8, prefetch, None)) as batches:
        epochs = [[batch.numpy().tolist() for batch in batches] for _ in range(2)]
    for epoch in epochs:
        assert sorted(sum(epoch, [])) == expected
    assert sum(epochs[0], []) != expected != sum(epochs[1], [])
    assert max(len(batch) for batch in epochs[0]) <= 10  # hio spreads the remainder


def test_images_are_decoded_and_resized(written, pipeline):
    with pipeline(written, Shape(2, 5, 0, PIXELS)) as batches:
        found = list(batches)
    assert [batch.shape for batch in found] == [(5, PIXELS, PIXELS, 3)] * 4
    assert len({float(tf.reduce_mean(image)) for batch in found for image in batch}) == COUNT
    assert all(0 <= float(tf.reduce_min(batch)) <= float(tf.reduce_max(batch)) <= 1
               for batch in found)


def test_threads_and_prefetching_are_those_that_were_asked_for(written, pipeline):
    with pipeline(written, Shape(3, 8, 0, PIXELS)) as batches:
        options = batches.options()
        assert options.threading.private_threadpool_size == 3
        assert options.experimental_optimization.inject_prefetch is False


def test_what_a_run_counts(written, pipeline):
    shape, paths = Shape(2, 5, 1, PIXELS), jpegs.names(written)
    between = []
    with pipeline(written, shape) as batches:
        found = measure(batches, shape, paths, 1e-9, 0.0, lambda: between.append(1))
        assert (found["images"], found["steps"], found["epochs"]) == (COUNT, 4, 1)
        found = measure(batches, shape, paths, 4 * found["seconds"], 0.0,
                        lambda: between.append(1))
    assert found["images"] == COUNT * found["epochs"] and found["epochs"] >= 2
    assert len(between) == found["epochs"] - 1
    assert 0 < found["waited_seconds"] <= found["seconds"]


def test_steps_take_their_time_and_do_not_wait_for_it(written, pipeline):
    shape = Shape(1, 5, 1, None)
    with pipeline(written, shape) as batches:
        found = measure(batches, shape, jpegs.names(written), 1e-9, 0.05)
    assert found["seconds"] - found["waited_seconds"] >= 4 * 0.05


def test_a_file_that_is_none_is_not_overlooked(written, tmp_path):
    """tf.data leaves it out."""
    paths = jpegs.names(written)
    for path in paths[:3]:
        (tmp_path / Path(path).name).write_bytes(Path(path).read_bytes())
    (tmp_path / "x.jpg").write_bytes(b"no JPEG")
    shape = Shape(1, 2, 0, PIXELS)
    with PIPELINES["tf-data"](tmp_path, shape) as batches, pytest.raises(
            WrongImages, match="3 images of 4 files; remedy: remove"):
        measure(batches, shape, jpegs.names(tmp_path), 1e-9, 0.0)


def test_bytes_that_are_missing_are_not_overlooked(written):
    paths = jpegs.names(written)
    shape = Shape(1, 5, 0, None)
    empty = tf.data.Dataset.from_tensor_slices([b""] * COUNT).batch(5)
    with pytest.raises(WrongImages, match="0 bytes of files that have"):
        measure(empty, shape, paths, 1e-9, 0.0)


def test_forgotten_files_can_still_be_read(written):
    consumer.forget(jpegs.names(written))
    assert Path(jpegs.names(written)[0]).read_bytes()[:2] == b"\xff\xd8"
