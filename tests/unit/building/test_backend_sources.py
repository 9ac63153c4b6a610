"""The library of torch.distributed's backend has all that it uses: the linker allows what is
missing, and the first import fails. So do installs without Horovod, which have no other library of
core."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from setuptools import Distribution

from building import commands, environment

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "horovod_opt" / "csrc"
INCLUDE = re.compile(r'^#include "(horovod_opt/csrc/\S+)"', re.MULTILINE)


def listed(name: str) -> set[Path]:
    """Of a set() in sources.cmake."""
    text = re.search(rf"set\({name}\n(.*?)\)$", (SOURCES / "sources.cmake").read_text(),
                     re.MULTILINE | re.DOTALL)[1]
    return {SOURCES / line.strip().removeprefix("${CMAKE_CURRENT_LIST_DIR}/")
            for line in text.splitlines()}


def used(files: set[Path]) -> set[Path]:
    """With the sources of all headers that they include, and so on: those of a header's name, and
    those that include it and have no header of their own, as ordered_group_trouble.cc."""
    everything, waiting = set(), list(files)
    while waiting:
        path = waiting.pop()
        if path in everything:
            continue
        everything.add(path)
        waiting += [ROOT / name for name in INCLUDE.findall(path.read_text())]
        if path.suffix == ".h":
            own = str(path.relative_to(ROOT))
            waiting += [source for source in path.parent.glob("*.cc")
                        if source.stem == path.stem or (
                            not source.with_suffix(".h").exists()
                            and own in INCLUDE.findall(source.read_text()))]
    return {path for path in everything if path.suffix == ".cc"}


def test_all_sources_are_listed():
    own, of_core = listed("HOROVOD_OPT_C10D_SOURCES"), listed("HOROVOD_OPT_C10D_CORE_SOURCES")
    assert own == set((SOURCES / "c10d").glob("*.cc"))
    assert used(own) - own == of_core


@pytest.mark.parametrize("has_horovod", [False, True])
def test_each_install_compiles_it_where_there_is_a_pytorch(monkeypatch, tmp_path, has_horovod):
    compiled = []
    for name in ("compile_reader", "compile_libraries", "find_tensorflow"):
        monkeypatch.setattr(commands.native, name, lambda *arguments: None)
    monkeypatch.setattr(commands.native, "find_pytorch",
                        lambda variables: commands.native.Framework("2.99", (), ()))
    monkeypatch.setattr(commands.native, "compile_backend",
                        lambda pytorch, *arguments: compiled.append(pytorch.version))
    kind = environment.Environment if has_horovod else environment.Tools
    host = create_autospec(kind, instance=True, compiler="c++", variables={}, mpicxx=None,
                           gloo=False, frameworks={}, spec_set=False)
    host.summary.return_value = ""
    command = commands.BuildExt(Distribution())
    command.build_lib = str(tmp_path)
    command.distribution.environment = host
    (tmp_path / "horovod_opt").mkdir()
    command.run()
    assert compiled == ["2.99"]
    assert json.loads((tmp_path / "horovod_opt/build.json").read_text())["horovod"] == has_horovod
