from __future__ import annotations

import re

import pytest

from horovod_opt.cli import main


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    for number in range(40):
        path = folder / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(1000))
    return folder


def test_who_reads_what(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    picture = tmp_path / "order.svg"
    assert main(["io", "order", "--samples", "100000", "--ranks", "8", "--nodes", "4",
                 "--svg", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "100000 samples, 11.0 GB, in 2632 chunks of 38; shards 64, window 6" in text
    assert "Relative entropy: 81.4% measured" in text
    assert re.search(r"Relative entropy of what a rank sees: (7[5-9]|8[0-9])\.\d% measured", text)
    part = re.search(r"Distinct runs of 100 samples, .* in a rank's batch: ([\d.]+), of "
                     r"independent draws ([\d.]+): ([\d.]+)$", text, re.MULTILINE)
    assert float(part[3]) == pytest.approx(float(part[1]) / float(part[2]), abs=0.01)
    assert 0.75 < float(part[3]) < 0.9
    rows = [line.split("│") for line in text.splitlines() if line.startswith("│")]
    assert [row[2].strip() for row in rows] == ["0-1", "2-3", "4-5", "6-7"]
    assert rows[0][3].strip() == "0-15"
    assert "<svg" in picture.read_text()


def test_the_order_of_files(capsys, images):
    assert main(["io", "order", str(images), "--batch-size", "8"]) == 0
    text = capsys.readouterr().out
    assert "40 samples, 40.0 kB, in 1 chunks of" in text
    assert "Distinct classes, in a rank's batch: 3." in text
    assert "5 steps, global batch 8" in text


@pytest.mark.parametrize("arguments, text", [
    ([], "give either a PATTERN or --samples"),
    (["--samples", "100", "--ranks", "2", "--nodes", "3"], "--nodes 3 is more than --ranks 2"),
    (["--samples", "3", "--ranks", "4"], "3 samples for 4 ranks"),
    (["--samples", "100", "--seed", "-1"], "seed=-1"),
    (["--samples", "100", "--epoch", "-1"], "epoch=-1"),
    (["--samples", "100", "--svg", "/nowhere/order.svg"], "--svg /nowhere/order.svg"),
    (["--samples", "100", "--svg", "order.nonsense"], "--svg order.nonsense"),
])
def test_values_that_are_refused(capsys, arguments, text):
    assert main(["io", "order", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_data_that_is_not_there(capsys, tmp_path):
    assert main(["io", "order", str(tmp_path / "*.tfrecord")]) == 1
    assert "*.tfrecord" in capsys.readouterr().err
