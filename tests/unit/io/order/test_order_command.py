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


@pytest.mark.parametrize("order", ["window", "ordered"])
@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_what_a_cache_saves(capsys, part, order):
    """Four nodes keep a part of 1.1 GB for each other: of that each has a quarter itself."""
    cache = int(275_000_000 * part) + 2_000_000 * (part == 1) or 1
    assert main(["io", "order", "--samples", "10000", "--ranks", "8", "--nodes", "4",
                 "--cache", str(cache), "--order", order]) == 0
    text = capsys.readouterr().out
    units = {"bytes": 1, "MB": 1e6, "GB": 1e9}
    kept, _, first, _, later, network = (
        float(number) * units[unit] / 1.1e9 for number, unit in re.findall(
            r"([\d.]+) (bytes|MB|GB)", text.partition("Kept by all nodes")[2]))
    assert kept == pytest.approx(part, abs=0.02)
    assert first == pytest.approx(1)
    assert later == pytest.approx(1 - part, abs=0.02)
    assert network == pytest.approx(0.75 * part, abs=0.05)


def test_all_samples_together_need_little_memory_and_see_all_classes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    options = ["io", "order", "--samples", "20000", "--ranks", "8", "--nodes", "4", "--order",
               "ordered"]
    assert main(options) == 0
    text = capsys.readouterr().out
    assert "in 527 chunks of 38; shards 1, window 527" in text
    assert len(re.findall("Relative entropy.*: 100.0% measured", text)) == 2
    assert re.search(r"independent draws [\d.]+: (0.99|1.0\d)$", text, re.MULTILINE)
    assert "A node needs at most 14.1 MB at once" in text  # two ranks' batches of 64
    assert "Read again in each later epoch: 2.2 GB, nothing with --cache 55" in text
    for more in (["--window", "3"], ["--shards", "2"], ["--no-shuffle"], ["--svg", "a.svg"]):
        assert main([*options, *more]) == 2
        assert "--order ordered has one window of all samples" in capsys.readouterr().err


def test_dealt_to_the_whole_job_ranks_see_all_files(capsys, monkeypatch):
    """As if there was one node; what is not kept is then read in small pieces by all."""
    options = ["io", "order", "--samples", "20000", "--ranks", "8", "--batch-size", "32"]
    monkeypatch.setenv("COLUMNS", "140")
    seen = {}
    for name, more in (("one", []), ("node", ["--nodes", "8"]),
                       ("job", ["--nodes", "8", "--deal", "job"])):
        assert main([*options, *more]) == 0
        text = capsys.readouterr().out
        seen[name] = float(re.search(r"a rank's batch:.*: ([\d.]+)$", text, re.MULTILINE)[1])
        assert "Read in all: 2.2 GB, of which 0 bytes" in text
    assert seen["job"] == seen["one"] > 1.1 * seen["node"]


def test_how_much_cache_keeps_all(capsys):
    """As much as it says, and no page less."""
    options = ["io", "order", "--samples", "10000", "--ranks", "4", "--nodes"]
    for nodes in ("1", "4"):
        assert main([*options, nodes]) == 0
        enough = int(re.search(r"nothing with --cache (\d+)", capsys.readouterr().out)[1])
        assert main([*options, nodes, "--cache", str(enough)]) == 0
        assert "In each later epoch: 0 bytes from storage" in capsys.readouterr().out


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
