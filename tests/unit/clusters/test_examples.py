"""examples/clusters without a cluster: the scripts can be read, and what they name exists."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import mpijob
import pytest
import ways

from horovod_opt import settings

SCRIPTS = sorted(ways.EXAMPLES.glob("*.sh"))
FILES = sorted(ways.EXAMPLES.iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(script):
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/bash\n")
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_script_is_tried():
    text = Path(ways.__file__).read_text()
    assert [path.name for path in SCRIPTS if f'"{path.name}"' not in text] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_settings_exist(path):
    names = {row.name for row in settings.TABLE}
    assert set(re.findall(r"HOROVOD_OPT_\w+", path.read_text())) <= names


def test_mpijob_has_what_the_operator_requires():
    assert mpijob.problems(mpijob.read(ways.EXAMPLES / "mpijob.yaml")) == []


def test_mpijob_settings_are_valid():
    launcher = mpijob.launcher(mpijob.read(ways.EXAMPLES / "mpijob.yaml"))
    assert settings.load(mpijob.settings(launcher)).mode == "topo"


def test_mpijob_runs_what_the_image_has():
    launcher = mpijob.launcher(mpijob.read(ways.EXAMPLES / "mpijob.yaml"))
    image = (ways.EXAMPLES / "Dockerfile").read_text()
    assert f"build -t {launcher['image']} " in image
    workdir = Path(re.findall(r"^WORKDIR (\S+)$", image, re.MULTILINE)[-1])
    assert workdir == Path("/horovod-opt/examples")  # of the clone that is copied to /horovod-opt
    assert "COPY . /horovod-opt\n" in image
    assert (ways.EXAMPLES.parent / launcher["args"][1]).is_file()
    assert str(mpijob.HOST_FILE) in launcher["command"]


# What mpirun.sh gives to mpirun: one option a line.
MPIRUN = """#!/bin/sh
printf '%s\\n' "$@"
"""


@pytest.mark.parametrize("hosts", ["", "a:2,b:2"])
def test_mpirun_hands_on_all_settings(tmp_path, hosts):
    fake = tmp_path / "mpirun"
    fake.write_text(MPIRUN)
    fake.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    answer = subprocess.run(
        [ways.EXAMPLES / "mpirun.sh", "python", "two words.py"], check=True, text=True,
        capture_output=True, env={"PATH": path, "HOSTS": hosts, "HOROVOD_CYCLE_TIME": "2"})
    words = answer.stdout.splitlines()
    assert words[-2:] == ["python", "two words.py"]
    variables = {word for flag, word in zip(words, words[1:]) if flag == "-x"}
    assert variables == {"PATH", "HOROVOD_CYCLE_TIME", "HOROVOD_OPT_MODE"}
    assert ("--host" in words) == bool(hosts)
    assert (hosts in words) == bool(hosts)
