"""The page of the experiments: every script is on it, and it is what its script writes."""

from __future__ import annotations

import json
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


def figures_to(last: int, chapter: str = "") -> list[str]:
    return [f"Figure {chapter}{number}" for number in range(1, last + 1)]


# All that the five sources have, as their captions number them.
FIGURES = {
    "Pumma": {*figures_to(3, "1."), *figures_to(9, "2."), *figures_to(12, "3."),
              *figures_to(11, "4."), *figures_to(16, "5."), *figures_to(20, "6."),
              *figures_to(11, "8."), "Table 6.1", "Table 8.1", "Table 8.2", "Table 8.3",
              "Table 8.4"},
    "Pumma et al.": {*figures_to(2)},
    "Chien": {*figures_to(10), "Table I"},
    "Zhu": {*figures_to(12)},
    "Zhang": {*figures_to(11), "Table 1", "Table 2", "Table 3"},
}


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


def test_every_figure_and_table_of_the_sources_is_listed():
    sources = json.loads(readme.FIGURES.read_text())["sources"]
    assert {source["author"]: {*source["figures"]} for source in sources} == FIGURES
    listed = readme.README.read_text().partition("## Every figure and table\n")[2]
    rows = re.findall(r"^\| ((?:Figure|Table) \S+) \| .* \| (repeated: \[|simulated|not: \w)",
                      listed, re.MULTILINE)
    assert [figure for figure, _ in rows] == [
        figure for source in sources for figure in source["figures"]]


def test_a_figure_is_repeated_by_a_study_or_has_a_reason():
    document = json.loads(readme.FIGURES.read_text())
    for source in document["sources"]:
        studies = readme.studies_of(source["author"])
        assert set(studies) <= set(source["figures"])
        for figure, (shows, reason) in source["figures"].items():
            assert (figure in studies) == (reason == ""), (source["author"], figure)
            assert reason == "" or reason in document["reasons"]
            assert shows or reason == "not at hand"
    used = {reason for source in document["sources"] for _, reason in source["figures"].values()}
    assert used - {""} == set(document["reasons"])


@pytest.mark.parametrize("text, figures", [
    ("Figure 6.16, p. 135", ["Figure 6.16"]), ("Figure 6.20 (e), p. 140", ["Figure 6.20"]),
    ("Figures 6.9 to 6.11, pp. 120 to 122; Table 6.1, p. 3",
     ["Figure 6.9", "Figure 6.10", "Figure 6.11", "Table 6.1"]),
    ("Figures 7, 8 and 10 to 12 of Zhu et al. 2018",
     ["Figure 7", "Figure 8", "Figure 10", "Figure 11", "Figure 12"]),
    ("Chapter 6.2.5; Figure 3", ["Figure 3"]), ("Chapter 6.3 of Zhang et al. 2018", [])])
def test_what_a_study_says_that_it_repeats_is_read(text, figures):
    assert list(readme.repeated(text)) == figures


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
