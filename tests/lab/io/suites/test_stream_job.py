"""A job of the suite stream: its process on each testbed, and what the storage counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.stream import job
from horovod_lab.io.suites.stream.pipelines import PIPELINES
from horovod_lab.io.testbeds.disk import Disk
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring import launch

COUNT, SIZE = 24, 20_000
SHAPES = [{"threads": threads, "batch": 8, "prefetch": 1, "pixels": pixels}
          for threads, pixels in ((1, None), (8, None), (2, 16))]


@pytest.fixture(scope="module")
def jpeg_folder(tmp_path_factory) -> Path:
    folder = jpegs.folder_of(tmp_path_factory.mktemp("data"), COUNT, SIZE)
    jpegs.write(folder, COUNT, SIZE)
    return folder


@pytest.mark.parametrize("series", PIPELINES)
@pytest.mark.parametrize("testbed", [Disk, ParallelFileSystem])
def test_every_run_on_slow_storage_is_cold(open_testbed, jpeg_folder, testbed, series):
    results = job.run(open_testbed(testbed(jpeg_folder)), series, SHAPES, 0.01, 0.0, HANG_SECONDS)
    size = sum(path.stat().st_size for path in jpeg_folder.glob("*.jpg"))
    assert [{name: result[name] for name in SHAPES[0]} for result in results] == SHAPES
    for result in results:
        assert result["images"] == COUNT * result["epochs"]
        # No less than the files, and little more: whole pages, and what a disk says of them.
        assert result["epochs"] * size <= result["bytes"] <= 1.5 * result["epochs"] * size
        assert result["requests"] >= COUNT * result["epochs"]


def test_a_job_that_fails_says_why(jpeg_folder, tmp_path):
    """Out of the page cache, which counts nothing."""
    for path in jpeg_folder.glob("*.jpg"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "x.jpg").write_bytes(b"no JPEG")
    with WarmCache(tmp_path) as testbed, pytest.raises(launch.JobFailed) as failure:
        job.run(testbed, "tf-data", SHAPES[2:], 0.01, 0.0, HANG_SECONDS)
    assert f"tf-data: {COUNT} images of {COUNT + 1} files; remedy: remove {tmp_path}" in str(
        failure.value)
