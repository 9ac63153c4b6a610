"""constraints.txt names one version of all that make installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools.config.pyprojecttoml import load_file

ROOT = Path(__file__).parents[3]
PROJECT = load_file(ROOT / "pyproject.toml")
# By hand, for GPUs: no test installs it.
UNBOUND = {"nvidia-nccl-cu12"}


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {line.partition("==")[0]: Requirement(line) for line in lines if line[0] != "#"}


def requirements() -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"],
             *(line for extra in extras for line in extra)]
    return [requirement for requirement in map(Requirement, lines)
            if requirement.name not in UNBOUND]


@pytest.mark.parametrize("line", constraints().values(), ids=str)
def test_a_line_names_one_version(line):
    assert re.fullmatch(r"[a-z0-9.-]+==[0-9][^*,]*", str(line))
    assert line.name == canonicalize_name(line.name)


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_all_that_the_project_names_is_there(requirement):
    name = "tensorflow-cpu" if requirement.name == "tensorflow" else requirement.name
    (version,) = constraints()[canonicalize_name(name)].specifier
    assert requirement.specifier.contains(version.version)


def test_what_the_makefile_installs_is_there():
    text = (ROOT / "Makefile").read_text()
    tools = re.search(r"--quiet (setuptools [\w ]+)", text)[1].split()
    defaults = [re.search(rf"^{name} \?= (.*)", text, re.MULTILINE)[1].split()
                for name in ("FRAMEWORKS", "MPI")]
    assert {*tools, *sum(defaults, []), "pip", "tf-keras", "mpich"} <= set(constraints())


def test_nothing_installed_is_missing():
    """In an environment that make has made."""
    lines = subprocess.run([sys.executable, "-m", "pip", "list", "--format=freeze"], check=True,
                           env={**os.environ, "PYTHONPATH": ""}, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    installed = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert installed - {"horovod-opt"} <= set(constraints())
