"""The report: one page from the JSON files alone, that looks well on a phone and on a desk."""

from __future__ import annotations

import html.parser
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from horovod_lab.measuring import documents
from horovod_lab.measuring.present import Grid
from horovod_lab.report.page import machines, numbers
from horovod_lab.report.source import beside_the_source
from horovod_opt import cli


def entry(series: str, images: float, switches: int, kind: str = "synthetic") -> dict:
    stats = {"background_user_seconds": 1.5, "background_system_seconds": 0.3,
             "elapsed_seconds": 3.0, "process_involuntary_switches": switches}
    return {"round": 0, "model": "ResNet50", "framework": "tensorflow", "input": kind, "ranks": 2,
            "batch": 4, "pixels": 96, "separate": False, "series": series,
            "images_per_second": images, "step_seconds": 8 / images, "steps": 10,
            "breakdown": None, "stats": None if series == "no communication" else [stats]}


MEASUREMENTS = [entry("no communication", 20.0, 0), entry("off", 10.0, 300),
                entry("topo", 15.0, 60), entry("off", 8.0, 900, "real")]


@pytest.fixture
def bench_json(tmp_path) -> Path:
    document = {**documents.new("bench", ["horovod-opt"]), "settings": {"scaling": "weak"},
                "command": "horovod-opt bench --models '<ResNet50>'",
                "measurements": MEASUREMENTS}
    (tmp_path / "bench").mkdir()
    documents.save(tmp_path / "bench" / "bench.json", document)
    return tmp_path / "bench" / "bench.json"


def report(*arguments: object) -> int:
    return cli.main(["report", *map(str, arguments)])


class Page(html.parser.HTMLParser):
    """What a page refers to, its headings, and the alternative texts of its pictures."""

    def __init__(self, path: Path):
        super().__init__()
        self.references: list[str] = []
        self.alternatives: list[str] = []
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.references += [of[name] for name in ("src", "href") if name in of]
        if tag == "img":
            self.alternatives.append(of["alt"])

    def handle_data(self, data):
        self.text += data


def test_the_page_needs_nothing_else(bench_json, tmp_path):
    assert report(bench_json, "--output", tmp_path / "report.html") == 0
    page = Page(tmp_path / "report.html")
    assert page.references
    assert all(reference.startswith(("#", "data:image/svg+xml;base64,"))
               for reference in page.references)
    assert len(page.alternatives) == 3 and all(page.alternatives)
    for text in ("horovod-opt bench --models '<ResNet50>'", "Beside the source", "no communication",
                 "95 % confidence", "Linux "):
        assert text in page.text, text


def test_the_same_files_make_the_same_pictures(bench_json, tmp_path):
    pages = []
    for name in ("a.html", "b.html"):
        report(bench_json, "--output", tmp_path / name)
        pages.append([reference for reference in Page(tmp_path / name).references
                      if reference.startswith("data:")])
    assert pages[0] == pages[1]


def test_folders_are_searched_and_those_of_the_commands_are_the_default(
        bench_json, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert report() == 0 and (tmp_path / "report.html").exists()
    assert "from 1 files" in capsys.readouterr().out
    assert report("bench", "bench/bench.json") == 0
    assert "from 1 files" in capsys.readouterr().out


def test_what_cannot_be_used_is_named_and_the_page_is_made_from_the_rest(
        bench_json, tmp_path, capsys):
    half = bench_json.with_name("half.json")
    half.write_text(bench_json.read_text()[:99])
    assert report(bench_json.parent, "--output", tmp_path / "report.html") == 2
    captured = capsys.readouterr()
    assert "half.json is not JSON, or only a part of it" in captured.err
    assert "from 1 files" in captured.out and (tmp_path / "report.html").exists()


@pytest.mark.parametrize("arguments, message", [
    ((), "there is nothing to show in profile, bench"),
    (("nowhere",), "nowhere cannot be read: No such file"),
    (("empty",), "there is nothing to show in empty"),
])
def test_nothing_to_show(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert report(*arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_written(bench_json, capsys):
    assert report(bench_json, "--output", "/proc/1/report.html") == 2
    assert "/proc/1/report.html cannot be written" in capsys.readouterr().err


def test_beside_the_source():
    rows = beside_the_source([{"kind": "bench", "measurements": MEASUREMENTS}]).grids[0].rows
    assert {row[0]: row[1:3] for row in rows} == {
        "largest gain of topo over off, %": ("up to 21", "50"),
        "background thread in off, % of a core": ("60 to 90", "60"),
        "background thread in topo, % of a core": ("about 6", "60"),
        "involuntary switches, real over synthetic input, off": ("8.5", "3"),
        "involuntary switches, off over topo": ("3 to 25", "5"),
        "efficiency of off at the largest number of ranks, %": ("30.3 (24,576 GPUs)", "50.0")}
    assert not beside_the_source([{"kind": "simulation"}]).grids


def test_a_machine_is_described_once():
    document = documents.new("bench", ["a"])
    repeated = json.loads(json.dumps({**document, "command": "b"}))
    repeated["machine"]["load"] += 1
    third = json.loads(json.dumps({**document, "command": "c"}))
    third["machine"]["cpu"] = "another"
    described = machines([document, repeated, third])
    assert [len(machine.commands) for machine in described] == [2, 1]


def test_columns_of_numbers_are_those_that_begin_with_one():
    grid = Grid("", ("a", "b", "c", "d"), [("x", "", "+1.5 (1 to 2)", "2 ranks"),
                                           ("y", "-3", "", "no")])
    assert numbers(grid) == [False, True, True, True]
    assert numbers(Grid("", ("a", "b"), [])) == [False, False]


# In a browser


@pytest.fixture(scope="session")
def chromium() -> str:
    chromium_path = shutil.which("chromium")
    if not chromium_path:
        pytest.skip("there is no chromium (Debian: chromium)")
    return chromium_path


PROBE = """<script>addEventListener("load", () => parent.postMessage({
  width: innerWidth, needed: document.documentElement.scrollWidth, pictures: document.images.length,
  broken: [...document.images].filter(image => !image.naturalWidth).length,
  fetched: performance.getEntriesByType("resource").length}, "*"))</script>"""
FRAME = """<!DOCTYPE html><title>none</title>
  <iframe src="page.html" style="border: 0; width: WIDTHpx; height: 2000px"></iframe>
  <script>addEventListener("message", event => {
  document.title = JSON.stringify(event.data) })</script>"""


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_phone_and_a_desk(chromium, bench_json, tmp_path, width):
    # A window cannot be as narrow as a phone, a frame can.
    report(bench_json, "--output", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    (tmp_path / "page.html").write_text(page.replace("</body>", PROBE + "</body>"))
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    process = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000",
         f"--user-data-dir={tmp_path / 'browser'}", "--virtual-time-budget=10000", "--dump-dom",
         (tmp_path / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=HANG_SECONDS)
    title = process.stdout.partition("<title>")[2].partition("</title>")[0]
    assert title.startswith("{"), process.stdout + process.stderr
    sizes = json.loads(title)
    assert sizes["width"] == width
    assert (sizes["pictures"], sizes["broken"], sizes["fetched"]) == (3, 0, 0)
    assert sizes["needed"] <= width
