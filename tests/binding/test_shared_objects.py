"""The sources that the frameworks' libraries have in common are compiled once for all of them, and
those of a folder together."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from against_horovod import COMMANDS, REPOSITORY, installed_libraries

PLAN = REPOSITORY / "horovod_opt" / "csrc" / "core" / "plan"


def compilations() -> list[list[str]]:
    """The sources of each."""
    files = [entry["file"] for entry in json.loads(COMMANDS.read_text())]
    return [re.findall(r'^#include "(.+\.cc)"', Path(file).read_text(), re.MULTILINE)
            if file.endswith(".cxx") else [file] for file in files]


def test_no_source_is_compiled_twice():
    if len(installed_libraries()) < 2:
        pytest.skip("horovod-opt is installed for one framework only")
    compiled = Counter(source for sources in compilations() for source in sources)
    assert any(name.endswith("/common/controller.cc") for name in compiled)
    assert [name for name, times in compiled.items() if times > 1] == []


def test_the_sources_of_a_folder_are_compiled_together():
    [together] = [sources for sources in compilations()
                  if any(source.endswith("/core/plan/consensus.cc") for source in sources)]
    assert {Path(source).parent.name for source in together} == {"plan"}
    assert len(together) == len(list(PLAN.glob("*.cc"))) > 5


def test_what_does_not_go_together_is_compiled_apart():
    if "tensorflow" not in installed_libraries():
        pytest.skip("horovod-opt is installed without TensorFlow")
    assert [sources for sources in compilations() if len(sources) == 1
            and sources[0].endswith("/horovod/tensorflow/mpi_ops.cc")] != []
