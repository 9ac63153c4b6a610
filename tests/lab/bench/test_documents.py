"""The JSON files of the experiments."""

from __future__ import annotations

import json

import pytest

from horovod_lab.measuring import documents
from horovod_lab.measuring.documents import DocumentError, load, new, save


def refusal(path, *kinds: str) -> str:
    with pytest.raises(DocumentError) as caught:
        load(path, *kinds)
    return str(caught.value)


def test_what_is_saved_is_read_again_and_says_how_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["horovod-opt", "bench", "--models", "ResNet 50"])
    document = {**new("bench", ["horovod-opt"]), "measurements": [1.5, None]}
    save(tmp_path / "bench.json", document)
    assert load(tmp_path / "bench.json", "profile", "bench") == document
    assert document["command"] == "horovod-opt bench --models 'ResNet 50'"
    assert document["machine"]["cpus"] >= 1
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


def test_a_file_that_cannot_be_written_anew_stays_as_it_was(tmp_path):
    path = tmp_path / "bench.json"
    save(path, new("bench", ["x"]))
    before = path.read_text()
    with pytest.raises(TypeError):
        save(path, {"unserialisable": object()})
    assert path.read_text() == before


def test_no_file(tmp_path):
    assert refusal(tmp_path / "none.json", "bench").endswith(
        "none.json cannot be read: No such file or directory")


def test_half_a_file(tmp_path):
    path = tmp_path / "bench.json"
    save(path, new("bench", ["x"]))
    path.write_text(path.read_text()[:40])
    assert "is not JSON, or only a part of it" in refusal(path, "bench")


@pytest.mark.parametrize("content", ["[]", "1", "{}", '{"kind": "profile", "version": 1}'])
def test_something_else(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    assert "is no bench or simulate of horovod-opt" in refusal(
        tmp_path / "x.json", "bench", "simulate")


def test_another_version(tmp_path):
    text = json.dumps({"kind": "bench", "version": documents.VERSION + 1})
    (tmp_path / "x.json").write_text(text)
    assert f"reads version {documents.VERSION}" in refusal(tmp_path / "x.json", "bench")
