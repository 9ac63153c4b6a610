"""The virtual environment of `make`, with and without ensurepip."""

import subprocess

import pytest

from building import debian_package, make_venv


def test_has_pip(tmp_path):
    make_venv.make(tmp_path / "venv")
    version = subprocess.run([tmp_path / "venv" / "bin" / "python", "-m", "pip", "--version"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    assert str(tmp_path / "venv") in version


def test_names_the_remedy_without_ensurepip_and_without_packages(tmp_path, monkeypatch):
    def not_available(package, cache):
        raise debian_package.NotAvailable("apt-get not found")

    monkeypatch.setattr(make_venv, "_succeeds", lambda *arguments: False)
    monkeypatch.setattr(debian_package, "unpack", not_available)
    with pytest.raises(SystemExit, match="(?s)no ensurepip, and apt-get not found.*python3-venv"):
        make_venv.make(tmp_path / "venv")


def test_debian_package_says_which_tool_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian_package.NotAvailable, match="apt-get and dpkg-deb not found"):
        debian_package.unpack("hostname", tmp_path / "cache")


def test_debian_package_uses_what_was_fetched_before(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "cache").mkdir()
    assert debian_package.unpack("hostname", tmp_path / "cache") == tmp_path / "cache"
