"""The sources that the frameworks' libraries have in common are compiled once for all of them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from against_horovod import COMMANDS, installed_libraries


def test_no_source_is_compiled_twice():
    if len(installed_libraries()) < 2:
        pytest.skip("horovod-opt is installed for one framework only")
    compiled = Counter(entry["file"] for entry in json.loads(COMMANDS.read_text()))
    assert any(name.endswith("/common/controller.cc") for name in compiled)
    assert [name for name, times in compiled.items() if times > 1] == []
