"""The pinned release: where it comes from, and what is said when it cannot be had."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from building import BuildError, upstream

ROOT = Path(__file__).parents[3]
CONTENT = b"not really a source distribution"
PIN = upstream.Pin("0.28.1", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def environ(tmp_path) -> dict[str, str]:
    """An empty cache, and a package index that is an empty folder."""
    index = tmp_path / "index"
    index.mkdir()
    return {"PATH": os.defpath, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}


def path_in_cache(environ: dict[str, str]) -> Path:
    return Path(environ["XDG_CACHE_HOME"], "horovod-opt", PIN.file_name)


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(BuildError) as caught:
        upstream.obtain(environ, PIN)
    return str(caught.value)


# The pin


def test_pin_is_the_required_release():
    pin = upstream.read_pin()
    assert (pin.version, pin.file_name) == ("0.28.1", "horovod-0.28.1.tar.gz")
    assert pin.sha256.startswith("92a43f5a") and pin.sha256.endswith("7ef0")


def test_digest_is_in_one_place():
    digest = upstream.read_pin().sha256.encode()
    folders = ("building", "docs", "examples", "horovod_lab", "horovod_opt", "patches", "tests")
    files = [path for name in folders for path in (ROOT / name).rglob("*")
             if path.is_file() and path.parent.name != "__pycache__"]  # others write there now
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert [path for path in files if digest in path.read_bytes()] == [upstream.PIN_FILE]


def test_pin_file_without_a_pin(tmp_path):
    (tmp_path / "upstream.txt").write_text("horovod==0.28.1\n")
    with pytest.raises(BuildError, match="no line 'horovod==VERSION --hash=sha256:DIGEST'"):
        upstream.read_pin(tmp_path / "upstream.txt")


# HOROVOD_OPT_UPSTREAM


@pytest.mark.parametrize("path", ["{home}/any name.tar.gz", "~/any name.tar.gz"])
def test_named_file_is_used(path, environ, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = tmp_path / "any name.tar.gz"
    archive.write_bytes(CONTENT)
    environ["HOROVOD_OPT_UPSTREAM"] = path.format(home=tmp_path)
    assert upstream.obtain(environ, PIN) == archive
    assert not path_in_cache(environ).exists()


def test_named_file_is_missing(environ, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environ["HOROVOD_OPT_UPSTREAM"] = "missing.tar.gz"
    message = refusal(environ)
    assert f"HOROVOD_OPT_UPSTREAM={tmp_path}/missing.tar.gz: no such file" in message
    assert "horovod-0.28.1.tar.gz" in message


def test_named_file_has_another_digest(environ, tmp_path):
    archive = tmp_path / "horovod-0.28.1.tar.gz"
    archive.write_bytes(CONTENT + b"!")
    environ["HOROVOD_OPT_UPSTREAM"] = str(archive)
    message = refusal(environ)
    assert f"HOROVOD_OPT_UPSTREAM={archive}: SHA-256 is" in message
    assert hashlib.sha256(CONTENT + b"!").hexdigest() in message and PIN.sha256 in message


def test_named_file_does_not_fall_back_to_the_cache(environ, tmp_path):
    path_in_cache(environ).parent.mkdir(parents=True)
    path_in_cache(environ).write_bytes(CONTENT)
    environ["HOROVOD_OPT_UPSTREAM"] = str(tmp_path / "missing.tar.gz")
    assert "no such file" in refusal(environ)


# The cache


def test_cached_file_needs_no_index(environ):
    path_in_cache(environ).parent.mkdir(parents=True)
    path_in_cache(environ).write_bytes(CONTENT)
    assert upstream.obtain(environ, PIN) == path_in_cache(environ)


def test_cache_follows_the_convention():
    assert upstream.cache_dir({"HOME": "/home/me"}) == Path("/home/me/.cache/horovod-opt")
    assert upstream.cache_dir({"HOME": "/home/me", "XDG_CACHE_HOME": "/big"}) == Path(
        "/big/horovod-opt")


def test_cache_that_cannot_be_written(environ, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    message = refusal(environ)
    assert f"cannot write the cache, {tmp_path}/cache/horovod-opt" in message
    assert "XDG_CACHE_HOME" in message


# The index, through the real pip


def test_without_index_and_file(environ):
    message = refusal(environ)
    assert message.startswith("cannot get horovod-0.28.1.tar.gz from the package index")
    assert "set HOROVOD_OPT_UPSTREAM=/path/to/horovod-0.28.1.tar.gz" in message
    assert "No matching distribution found for horovod==0.28.1" in message
    assert list(path_in_cache(environ).parent.iterdir()) == []


def test_index_serves_another_file(environ):
    Path(environ["PIP_FIND_LINKS"], PIN.file_name).write_bytes(CONTENT)
    message = refusal(environ)
    assert message.startswith(
        "the package index serves another horovod-0.28.1.tar.gz than the pinned")
    assert list(path_in_cache(environ).parent.iterdir()) == []


def test_corrupt_cached_file_is_fetched_again(environ):
    """From the real release, which this machine must have in its cache or in its index."""
    pytest.importorskip("setuptools", reason="pip asks the release for its metadata")
    try:
        release = upstream.obtain()
    except BuildError as error:
        if "cannot get" in str(error):
            pytest.skip(str(error))
        raise
    environ["PATH"] = os.environ["PATH"]
    Path(environ["PIP_FIND_LINKS"], PIN.file_name).symlink_to(release)
    path_in_cache(environ).parent.mkdir(parents=True)
    path_in_cache(environ).write_bytes(release.read_bytes()[:1000])
    environ["PIP_NO_BUILD_ISOLATION"] = "0"  # pip's way to say yes: no index for setuptools

    assert upstream.obtain(environ) == path_in_cache(environ)
    assert path_in_cache(environ).read_bytes() == release.read_bytes()
    assert [path.name for path in path_in_cache(environ).parent.iterdir()] == [PIN.file_name]
