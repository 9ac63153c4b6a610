"""A MANIFEST that was damaged or forged is refused, with a remedy."""

from __future__ import annotations

import json

import pytest

import horovod_opt.io as hio
from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.manifest import Manifest
from horovod_opt.io.native import crc32c

GOOD = {"format": 1, "step": 3, "rank": 0, "ranks": 1, "files": {"state": [4, 5]}}


def forged(folder, content) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / manifests.NAME).write_bytes(body + f"\n{crc32c(body):08x}\n".encode())


def test_it_is_read_as_it_was_written(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "state").write_text("state")
    manifest = Manifest.of(tmp_path, 3, 1, 2)
    (tmp_path / manifests.NAME).write_bytes(manifest.to_bytes())
    assert manifests.read(tmp_path) == manifest
    assert manifest.bytes == 5
    manifests.check(tmp_path, manifest)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"\xff", b"[" * 100000,
    *({**GOOD, **change} for change in (
        {"format": 2}, {"step": -1}, {"step": "3"}, {"step": 1.5}, {"rank": 1}, {"ranks": 0},
        {"ranks": True}, {"files": None}, {"files": {"../state": [4, 5]}},
        {"files": {"/etc/passwd": [4, 5]}}, {"files": {"a/../b": [4, 5]}}, {"files": {"": [4, 5]}},
        {"files": {"MANIFEST": [4, 5]}}, {"files": {"state": [4]}}, {"files": {"state": [-4, 5]}},
        {"files": {"state": ["4", 5]}})),
    {name: value for name, value in GOOD.items() if name != "ranks"}])
def test_a_forged_one_is_refused(tmp_path, content):
    forged(tmp_path, content)
    with pytest.raises(hio.DataError, match="MANIFEST is not what was saved: .*; remedy"):
        manifests.read(tmp_path)


def test_a_damaged_one_is_refused(tmp_path):
    forged(tmp_path, GOOD)
    data = (tmp_path / manifests.NAME).read_bytes()
    for i in range(len(data) - 1):
        (tmp_path / manifests.NAME).write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1:])
        with pytest.raises(hio.DataError, match="MANIFEST is not what was saved"):
            manifests.read(tmp_path)


@pytest.mark.parametrize("change, text", [
    (lambda folder: (folder / "state").write_text("stat"), "4 bytes of 5"),
    (lambda folder: (folder / "state").write_text("State"), "other bytes than were saved"),
    (lambda folder: (folder / "state").unlink(), "state is missing"),
    (lambda folder: (folder / "more").write_text(""), "more is not of this version"),
    (lambda folder: (folder / "link").symlink_to("state"), "neither a file nor a folder")])
def test_other_files_are_not_what_was_saved(tmp_path, change, text):
    (tmp_path / "state").write_text("state")
    manifest = Manifest.of(tmp_path, 3, 0, 1)
    change(tmp_path)
    with pytest.raises(hio.DataError, match=f"is not what was saved: .*{text}.*; remedy"):
        manifests.check(tmp_path, manifest)
