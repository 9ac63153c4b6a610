"""The scripts of examples/habits, and the tables of docs/use/io-habits.md."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import horovod_opt.io as hio

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/use/io-habits.md").read_text()
SHARED = {"all_ranks.py", "small_data.py"}  # by the scripts of tables


def documented(heading: str) -> dict[str, str]:
    """Arguments of a table behind a text, with its second column."""
    table = PAGE[PAGE.index(heading):].partition("| --- |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[1:]]
    return {name: default.strip() for names, default in rows
            for name in re.findall(r"`(\w+)`", names)}


def arguments(function) -> dict[str, object]:
    return {name: parameter.default for name, parameter in
            inspect.signature(function).parameters.items() if name not in ("self", "data")}


def test_all_arguments_of_open_are_in_the_table():
    table, signature = documented("Of `hio.open(pattern, …)`"), arguments(hio.open)
    assert set(table) == set(signature)
    for name, default in signature.items():
        if isinstance(default, (str, int, float)):
            assert table[name].strip("`") == (f'"{default}"' if isinstance(default, str)
                                              else str(default)), name


def test_all_arguments_of_loaders_are_in_the_table():
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    signatures = {**arguments(hio.torch.loader), **arguments(hio.torch.BatchSampler),
                  **arguments(hio.tensorflow.dataset)}
    assert set(documented("Of `hio.torch.loader(data, …)`")) == set(signatures)


def test_each_row_of_the_tables_has_a_script_and_each_script_a_row():
    """But for whole scripts, which have a list, and for what scripts share."""
    named = set()
    tables = PAGE.partition("\n## How the scripts were tried")[0]
    for table in re.findall(r"(?:^\|.*\n)+", tables, re.MULTILINE):
        head, _, *rows = table.splitlines()
        assert head.endswith("| script |")
        for row in rows:
            links = re.findall(r"\[(\w+)\]\(\.\./\.\./(examples/habits/\w+/(\w+)\.py)\)",
                               row.split(" | ")[-1])
            assert links and all(text == stem for text, _, stem in links), row
            named |= {path for _, path, _ in links}
    assert len(named) > 50
    scripts = {str(path.relative_to(ROOT)) for path in (ROOT / "examples/habits").glob("*/*.py")}
    assert named == scripts
    for script in scripts:
        command = f"    horovodrun -np \\d python {script}\n"
        assert re.search(command, (ROOT / script).read_text()), script
    whole = {f"{name}.py" for name in re.findall(r"^- `(\w+)\.py`", PAGE, re.MULTILINE)}
    assert whole == {path.name for path in (ROOT / "examples/habits").glob("*.py")} - SHARED


WHOLE = {
    "torch": {
        "pytorch_tar": ["38 of 39 samples, 1 left out; mean "],
        "pytorch_folder": ["rank 0: 80 of 80 samples of 2 classes, the same by DataLoader",
                           "rank 0 alone: 20 samples"],
        "pytorch_mix": ["rank 0: 160 samples an epoch; loops of 3, then 10 batches; digits 0.75"],
        "pytorch_balanced": ["common 60, some 60, rare 60; 180 augmentations"] * 2},
    "tensorflow": {
        "tensorflow_gzip": ["120 samples an epoch, 60 of GZIP, 60 of ZLIB",
                            "14 steps, then 30; epoch 2, position 0"],
        "tensorflow_tfrecord": ["40 of 40 samples of 2 classes in 2 files",
                                "40 of 40 samples of 2 classes in 40 files"]}}
# One process for all of a framework: importing it takes longer than they do.
RUN = """
import runpy, sys
scripts, sys.argv[1:] = sys.argv[2:], ["--folder", sys.argv[1]]
for script in scripts:
    runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.parametrize("framework", WHOLE)
def test_whole_scripts(tmp_path, framework):
    for module in (framework, "sklearn", "PIL"):
        pytest.importorskip(module)
    scripts = [ROOT / f"examples/habits/{script}.py" for script in WHOLE[framework]]
    run = subprocess.run([sys.executable, "-c", RUN, tmp_path, *scripts], capture_output=True,
                         text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0, run.stderr
    lines, expected = run.stdout.splitlines(), sum(WHOLE[framework].values(), [])
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected))
