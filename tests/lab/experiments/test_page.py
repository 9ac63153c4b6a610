"""The page of the experiments: every script is on it, and it is what its script writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import readme
import study

from horovod_lab.measuring import documents

ROOT = Path(__file__).parents[3]
EXPERIMENTS = ROOT / "experiments"
SCRIPTS = sorted(path.stem for path in EXPERIMENTS.glob("*.py") if "\nSTUDY = " in path.read_text())
# The figures and tables of Chapter 6 that show a measurement.
MEASUREMENTS = {"6.5", "6.6", "6.7", "6.10", "6.16", "6.17", "6.18", "6.19", "6.20", "Table 6.1"}


def test_the_page_is_up_to_date():
    assert readme.README.read_text() == readme.page(), "run: python experiments/readme.py"


def test_every_script_is_on_the_page():
    assert sorted(one.name for one in readme.STUDIES) == SCRIPTS and SCRIPTS
    page = readme.README.read_text()
    for name in SCRIPTS:
        assert f"| [{name}.py](#{name}) |" in page and f"\n## {name}\n" in page, name


def test_every_measurement_of_the_chapter_is_repeated():
    repeated = "; ".join(text for one in readme.STUDIES for text in one.repeats
                         if one.name != "summit")  # which is simulated
    found = {figure.removeprefix("Figure ")
             for figure in re.findall(r"(?:Figure|Table) 6\.\d+", repeated)}
    assert found == MEASUREMENTS


def test_make_runs_the_short_ones():
    [line] = re.findall(r"^EXPERIMENTS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line.split() == [one.name for one in readme.STUDIES if one.short]


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(name):
    ended = subprocess.run([sys.executable, EXPERIMENTS / f"{name}.py", "--help"],
                           capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    [one] = [one for one in readme.STUDIES if one.name == name]
    assert shown.startswith(f"usage: experiments/{name}.py") and one.title in shown
    for text in (*one.repeats, *one.needs[:1]):
        assert text in shown


def test_what_was_recorded_is_shown_beside_the_source(tmp_path):
    [one] = [one for one in readme.STUDIES if one.name == "traversal"]
    folder = tmp_path / "traversal"
    folder.mkdir()
    document = {
        **documents.new("traversal", ["python", "experiments/traversal.py"]), "seconds": 150.0,
        "started": "2026-01-31T12:00:00+00:00", "command": "python experiments/traversal.py",
        "networks": [{"network": "AlexNet", "nodes": 600, "analyse_ms": 7.6}], "synthetic": []}
    documents.save(folder / "traversal.json", document)
    assert "| not recorded |" in readme.page(tmp_path).split("[traversal.py]")[1].splitlines()[0]
    for name in ("traversal.png", f"{study.PICTURE}.png"):
        (folder / name).touch()
    page = readme.page(tmp_path)
    assert "| Table 6.1, p. 139 | yes | 2 min |" in page
    about = page.split("\n## traversal\n")[1].split("\n## ")[0]
    assert f"Recorded on 2026-01-31 on {document['machine']['cpu']}" in about
    assert "    python experiments/traversal.py\n" in about
    assert ("| traversal of the graph of AlexNet, ms | 6 | Table 6.1, p. 139 | 8 | 600 nodes |"
            in about)
    pictures = re.findall(r"!\[.*\]\((.*)\)", about)
    assert [Path(one).name for one in pictures] == ["beside-the-source.png", "traversal.png"]
    assert page.count("Not recorded yet.") == len(readme.STUDIES) - 1
    assert one.title in about


def test_what_a_benchmark_measured_is_shown_with_every_series():
    page = readme.page()
    shown = 0
    for one in readme.STUDIES:
        about = page.split(f"\n## {one.name}\n")[1].split("\n## ")[0]
        benchmarks = [each for each in readme.recorded(one, readme.RESULTS)
                      if each["kind"] == "bench"]
        for series in {row.series for row in study.benchmark_rows(benchmarks)}:
            assert f"| {series} | " in about, (one.name, series)
            shown += 1
    assert shown >= 14  # of PyTorch, the breakdown and the context switches


def test_a_wheel_has_no_experiments():
    packages = re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(),
                         re.MULTILINE | re.DOTALL)[1]
    assert "horovod_lab.bench" in packages and '"experiments' not in packages
