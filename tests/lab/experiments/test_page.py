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
    assert sorted(experiment.name for experiment in readme.STUDIES) == SCRIPTS and SCRIPTS
    page = readme.README.read_text()
    for name in SCRIPTS:
        assert f"| [{name}.py](#{name}) |" in page and f"\n## {name}\n" in page, name


def test_every_measurement_of_the_chapter_is_repeated():
    repeated = "; ".join(text for experiment in readme.STUDIES for text in experiment.repeats
                         if experiment.name != "summit")  # which is simulated
    figures = {figure.removeprefix("Figure ")
               for figure in re.findall(r"(?:Figure|Table) 6\.\d+", repeated)}
    assert figures == MEASUREMENTS


def test_make_runs_the_short_ones():
    [line] = re.findall(r"^EXPERIMENTS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line.split() == [experiment.name for experiment in readme.STUDIES if experiment.short]


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(name):
    process = subprocess.run([sys.executable, EXPERIMENTS / f"{name}.py", "--help"],
                             capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    usage = " ".join(process.stdout.split())
    [experiment] = [experiment for experiment in readme.STUDIES if experiment.name == name]
    assert usage.startswith(f"usage: experiments/{name}.py") and experiment.title in usage
    for text in (*experiment.repeats, *experiment.needs[:1]):
        assert text in usage


def test_what_was_recorded_is_shown_beside_the_source(tmp_path):
    name = "graph_analysis_cost"
    [experiment] = [experiment for experiment in readme.STUDIES if experiment.name == name]
    folder = tmp_path / name
    folder.mkdir()
    document = {
        **documents.new("traversal", ["python", f"experiments/{name}.py"]), "seconds": 150.0,
        "started": "2026-01-31T12:00:00+00:00", "command": f"python experiments/{name}.py",
        "networks": [{"network": "AlexNet", "nodes": 600, "analyse_ms": 7.6}], "synthetic": []}
    documents.save(folder / "traversal.json", document)
    assert "| not recorded |" in readme.page(tmp_path).split(f"[{name}.py]")[1].splitlines()[0]
    for picture in ("traversal.png", f"{study.PICTURE}.png"):
        (folder / picture).touch()
    page = readme.page(tmp_path)
    assert "| Table 6.1, p. 139 | yes | 2 min |" in page
    about = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert f"Recorded on 2026-01-31 on {document['machine']['cpu']}" in about
    assert f"    python experiments/{name}.py\n" in about
    assert ("| traversal of the graph of AlexNet, ms | 6 | Table 6.1, p. 139 | 8 | 600 nodes |"
            in about)
    pictures = re.findall(r"!\[.*\]\((.*)\)", about)
    assert [Path(path).name for path in pictures] == ["beside-the-source.png", "traversal.png"]
    assert page.count("Not recorded yet.") == len(readme.STUDIES) - 1
    assert experiment.title in about


def test_what_a_benchmark_measured_is_shown_with_every_series():
    page = readme.page()
    tables_with_series = 0
    for experiment in readme.STUDIES:
        about = page.split(f"\n## {experiment.name}\n")[1].split("\n## ")[0]
        benchmarks = [document for document in readme.recorded(experiment, readme.RESULTS)
                      if document["kind"] == "bench"]
        for series in {row.series for row in study.benchmark_rows(benchmarks)}:
            assert f"| {series} | " in about, (experiment.name, series)
            tables_with_series += 1
    assert tables_with_series >= 14  # of PyTorch, the breakdown and the context switches


def test_a_wheel_has_no_experiments():
    packages = re.search(r"^include = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(),
                         re.MULTILINE | re.DOTALL)[1]
    assert '"horovod_lab*"' in packages and '"experiments' not in packages
