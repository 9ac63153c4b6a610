"""horovod-opt io drain: what a job has left in its fast folder."""

from __future__ import annotations

import pytest

import horovod_opt.io as hio
from horovod_opt.cli import main
from horovod_opt.io.checkpoints.lock import Lock


@pytest.fixture
def left(tmp_path):
    """Three versions of a job that had no time to copy them."""
    buffer = hio.BurstBuffer(tmp_path / "fast", tmp_path / "slow")
    with buffer._copier.work:
        for step in (1, 2, 3):
            with buffer.save(step) as folder:
                (folder / "state").write_bytes(b"%d" % step * 1000)
        buffer._copier._is_over = True
    buffer.close(drain=False)
    for folder in (tmp_path / "fast", tmp_path / "slow"):
        assert not (folder / "3" / "0").exists() or folder.name == "fast"
    return tmp_path


def test_all_is_copied_and_the_fast_folder_is_empty(left, capfd):
    assert main(["io", "drain", str(left / "fast"), str(left / "slow"), "--keep", "2"]) == 0
    assert "slow has versions 2, 3" in capfd.readouterr().out
    assert [path.name for path in (left / "fast").iterdir()] == [".lock-0"]
    with hio.BurstBuffer(left / "other", left / "slow") as buffer:
        assert (buffer.restore() / "state").read_bytes() == b"3" * 1000
    assert main(["io", "drain", str(left / "fast"), str(left / "slow")]) == 0


def test_damaged_versions_are_named_and_stay(left, capfd):
    (left / "fast" / "2" / "0" / "state").write_text("no")
    assert main(["io", "drain", str(left / "fast"), str(left / "slow")]) == 1
    done = capfd.readouterr()
    assert "2 bytes of 1000" in done.err and "versions 1, 3" in done.out
    assert (left / "fast" / "2").exists()


def test_a_job_that_runs_is_left_alone(left, capfd):
    lock = Lock(left / "fast", 0)
    assert main(["io", "drain", str(left / "fast"), str(left / "slow")]) == 1
    assert "already writes the parts of rank 0" in capfd.readouterr().err
    lock.release()


@pytest.mark.parametrize("fast, slow, text", [
    ("missing", "slow", "is no folder of this machine"), ("fast", "fast", "are one folder")])
def test_other_folders_are_refused(left, capfd, fast, slow, text):
    assert main(["io", "drain", str(left / fast), str(left / slow)]) == 1
    assert text in capfd.readouterr().err
