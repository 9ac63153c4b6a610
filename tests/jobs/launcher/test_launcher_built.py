"""The launcher learns from the build's notes whether Horovod has MPI and Gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ASK = """
import sys
from horovod.common import util
from horovod_opt.launcher import built

def asked(name, *arguments):
    questions.append(name)
    return None  # as where it cannot be imported

questions = []
util._check_extension_lambda = asked
verbose = len(sys.argv) > 1
print(util.mpi_built(verbose), util.gloo_built(verbose), len(questions))
"""


@pytest.fixture
def answers(parts, tmp_path):
    """What a Horovod says whose build noted this: MPI, Gloo, and how many libraries it asked."""
    installed = Path(find_spec("horovod").origin).parents[1]

    def answers(notes: str | None, *arguments: str) -> str:
        site = tmp_path / "site"
        site.mkdir()
        (site / "horovod").symlink_to(installed / "horovod")
        own = site / "horovod_opt"
        own.mkdir()
        for path in (installed / "horovod_opt").iterdir():
            if path.name not in ("build.json", "__pycache__"):
                (own / path.name).symlink_to(path)
        if notes is not None:
            (own / "build.json").write_text(notes)
        return subprocess.run(
            [sys.executable, "-c", ASK, *arguments], cwd=site, text=True, capture_output=True,
            check=True).stdout.strip()

    return answers


@pytest.mark.parametrize("mpicxx, gloo, expected", [
    ("/usr/bin/mpicxx", True, "True True 0"),
    ("", True, "False True 0"),
    ("/usr/bin/mpicxx", False, "True False 0"),
])
def test_no_framework_is_asked(answers, mpicxx, gloo, expected):
    assert answers(json.dumps({"mpicxx": mpicxx, "gloo": gloo})) == expected


@pytest.mark.parametrize("notes, arguments", [
    (None, ()), ("{", ()), ('{"gloo": true}', ()),
    ('{"mpicxx": "/usr/bin/mpicxx", "gloo": true}', ("verbose",)),
], ids=["no notes", "half of them", "others", "verbose"])
def test_the_frameworks_are_asked_where_notes_say_nothing(answers, notes, arguments):
    assert answers(notes, *arguments) == "None None 6"
