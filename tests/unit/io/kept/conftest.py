from __future__ import annotations

import pytest
from data_sets import tfrecord
from kept_reads import SAMPLES, SIZE

from horovod_opt.io.node_reader import reader_process


@pytest.fixture
def pattern(tmp_path, monkeypatch) -> str:
    """Records in three files, that are read though they are in the page cache."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    (tmp_path / "data").mkdir()
    per_file = SAMPLES // 3
    for file in range(3):
        tfrecord(tmp_path / "data" / f"{file}.tfrecord", (
            number.to_bytes(4, "little") * (SIZE // 4)
            for number in range(file * per_file, (file + 1) * per_file)))
    return str(tmp_path / "data" / "*.tfrecord")
