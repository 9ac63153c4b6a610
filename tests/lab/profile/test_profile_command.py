"""`horovod-opt profile` without a job, its pictures, and the counters that a job leaves for it."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
import types

import pytest
from matplotlib.figure import Figure

from horovod_lab.measuring import documents
from horovod_lab.profile import compare, profile_pictures
from horovod_lab.profile.classes import BACKGROUND, CLASSES, INPUT, MAIN
from horovod_opt import cli, runtime
from horovod_opt.native import header, prototypes, structs


def usage(**fields: float) -> dict:
    return {"threads": 1, "user_seconds": 0.0, "system_seconds": 0.0, "voluntary_switches": 0,
            "involuntary_switches": 0, "run_delay_seconds": 0.0, **fields}


def rank_of(number: int, background: float, switches: int, mode: str | None = "off",
            extra: str = "") -> dict:
    classes = {name: usage(threads=0) for name in (*CLASSES, *filter(None, [extra]))}
    classes[BACKGROUND] = usage(user_seconds=background, system_seconds=1.0)
    classes[MAIN] = usage(user_seconds=2.0, involuntary_switches=switches, run_delay_seconds=4.0)
    if extra:
        classes[extra] = usage(user_seconds=1.0)
    return {"rank": number, "local_rank": number, "pid": 7, "host": "node", "mode": mode,
            "cpus": [0], "seconds": 20.0, "classes": classes,
            "steady": {"seconds": 10.0, "classes": classes},
            "samples": {"seconds": [1.0, 2.0], "cpu": {BACKGROUND: [0.5, 0.75]}}, "stats": None}


def profile_of(*ranks: dict, cycles: bool = True, **more) -> dict:
    timeline = [[0.0, 0.01, "asleep"], [0.01, 0.015, "waiting"], [0.015, 0.04, "running"]]
    numbers = [str(rank["rank"]) for rank in ranks]
    windows = [{"shown": "typical", "rule": "such", "seconds": 0.04, "start": 12.5,
                "ranks": dict.fromkeys(numbers, timeline)}]
    return {
        **documents.new("profile", ["horovod-opt"]),
        "job": {"command": ["horovodrun", "train.py"], "ranks": len(ranks), "expected": 2,
                "exit_status": 0, "seconds": 20.0, "environment": {}},
        "label": "", "interval_seconds": 0.5, "sampler": {"cpu_percent": 0.321, "samples": 40},
        "steady": {"from_seconds": 10.0, "to_seconds": 20.0, "rule": "a rule"},
        "ranks": list(ranks),
        "cycles": {
            "resolution_seconds": 0.0005, "cycle_time_seconds": 0.001, "seconds": 1.5,
            "oversleeps_seconds": dict.fromkeys(numbers, [0.001, 0.0, 0.005]),
            "wakeups_per_second": dict.fromkeys(numbers, 321.0), "bursts": windows,
        } if cycles else None,
        **more,
    }


def figures_of(section) -> dict[str, Figure]:
    for picture in section.pictures:
        picture.figure.draw_without_rendering()
    return {picture.name: picture.figure for picture in section.pictures}


def test_section_of_a_profile():
    section = profile_pictures.section(profile_of(rank_of(0, 5.0, 120), rank_of(1, 2.0, 30)))
    assert set(figures_of(section)) == {"background", "classes", "cycles", "oversleeps"}
    row, second = section.grids[0].rows
    assert list(row) == ["0", "60.0", "0.0", "0.0", "20.0", "12", "40", "1000", "5.0", "321"]
    assert list(second[:2]) == ["1", "30.0"]
    assert "mode off" in section.summary and "0.32 % of a core" in section.summary


def test_section_without_bursts_of_upstream_with_a_users_class():
    document = profile_of(rank_of(0, 5.0, 120, mode=None, extra="my reader"), cycles=False)
    section = profile_pictures.section(document)
    assert set(figures_of(section)) == {"background", "classes"}
    assert "upstream's Horovod" in section.summary
    legend, = figures_of(section)["classes"].legends
    assert [text.get_text() for text in legend.get_texts()] == [BACKGROUND, MAIN, "my reader"]


def test_a_failed_job_is_named():
    document = profile_of(rank_of(0, 5.0, 120))
    document["job"]["exit_status"] = 137
    assert "exit status 137" in profile_pictures.section(document).summary


def test_a_triangle_for_each_oversleep_of_a_millisecond():
    document = profile_of(rank_of(0, 5.0, 1))
    window, = document["cycles"]["bursts"]
    window["ranks"] = {"0": [[0.0, 0.002, "waiting"], [0.002, 0.01, "running"],
                             [0.01, 0.0105, "waiting"], [0.0105, 0.04, "asleep"]]}
    axis, = figures_of(profile_pictures.section(document))["cycles"].axes
    assert [line.get_xdata()[0] for line in axis.lines] == [1.0]


def test_comparison():
    synthetic = profile_of(rank_of(0, 5.0, 100), rank_of(1, 5.0, 300))
    real = profile_of(rank_of(0, 5.0, 1700, mode="topo", extra=INPUT), cycles=False)
    section = compare.comparison(["synthetic", "real"], [synthetic, real])
    assert len(figures_of(section)) == 3
    first, second = section.grids[0].rows
    assert list(first[:6]) == ["synthetic", "off", "2", "60.0", "20", "1.00"]
    assert list(second[:6]) == ["real", "topo", "1", "60.0", "170", "8.50"]


@pytest.fixture
def paths(tmp_path) -> list[str]:
    """Two profiles, the second without a label."""
    paths = []
    for label in ("synthetic", ""):
        folder = tmp_path / f"run-{label}"
        folder.mkdir()
        documents.save(folder / "profile.json", profile_of(rank_of(0, 5.0, 100), label=label))
        paths.append(str(folder / "profile.json"))
    return paths


def test_the_report_compares_profiles(paths, tmp_path):
    pytest.importorskip("jinja2")
    assert cli.main(["report", *paths, "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 3 + 2 * 4  # beside each other, and each alone
    assert re.search("<td[^>]*>synthetic</td>", page) and re.search("<td[^>]*>run-</td>", page)


def test_command_compares(paths, tmp_path, capsys):
    output = tmp_path / "compared"
    assert cli.main(["profile", "--output", str(output), "--compare", *paths]) == 0
    printed = capsys.readouterr().out
    assert "synthetic" in printed and "run-" in printed
    assert {path.name for path in output.iterdir()} == {
        "compared-background.png", "compared-switches.png", "compared-run-delay.png"}


@pytest.mark.parametrize("arguments, message", [
    ([], "no job"),
    (["--"], "no job"),
    (["--", "/no/such/program"], "/no/such/program cannot be started: No such file"),
    (["--", "/"], "/ cannot be started: Permission denied"),
    (["--compare", "a.json"], "two profiles or more"),
    (["--compare", "a.json", "b.json"], "a.json cannot be read"),
    (["--compare", "a.json", "b.json", "--", "true"], "either --compare or a job"),
    (["--classes", "none.json", "--", "true"], "none.json cannot be read"),
    (["--interval", "0", "--", "true"], "invalid number of seconds"),
])
def test_bad_input(arguments, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(["profile", *arguments])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    assert cli.main(["profile", "--output", str(tmp_path / "file" / "x"), "--", "true"]) == 2
    assert "cannot be made: Not a directory" in capfd.readouterr().err


@pytest.mark.parametrize("program, status", [("pass", 0), ("exit(7)", 7)])
def test_a_job_without_horovod(tmp_path, capfd, program, status):
    (tmp_path / "profile.json").write_text("measured before")
    code = cli.main(["profile", "--output", str(tmp_path), "--interval", "0.05", "--",
                     sys.executable, "-c", f"print('its output'); {program}"])
    output = capfd.readouterr()
    assert code == 2
    assert output.out == "its output\n"
    assert f"the job ended with exit status {status}, and none of its processes" in output.err
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]
    assert (tmp_path / "profile.json").read_text() == "measured before"


def test_help_is_quick():
    """No picture is drawn for it, no framework loaded."""
    code = ("import sys; from horovod_opt import cli\n"
            "try: cli.main(['profile', '--help'])\nexcept SystemExit: pass\n"
            "print([name for name in ('matplotlib', 'numpy', 'rich.table') "
            "if name in sys.modules])")
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True)
    assert answer.stdout.endswith("[]\n") and "--compare" in answer.stdout


# The counters that the patched Horovod writes


class Library:
    """A native library that two ranks were gathered in."""

    _name = "/x/horovod/torch/mpi_lib_v2.so"

    def __init__(self):
        def configure(settings, text, error):
            self.settings = settings

        def gathered(rank, out):
            ctypes.cast(out, ctypes.POINTER(structs.NativeStats)).contents.rank = rank
            return 0

        for function in prototypes.TABLE:
            setattr(self, function.name, lambda *arguments: None)
        self.horovod_opt_abi = lambda: header.HASH.encode()
        self.horovod_opt_configure = configure
        self.horovod_opt_gathered_ranks = lambda: 2
        self.horovod_opt_gathered_stats = gathered

    def __setattr__(self, name, value):
        is_function = isinstance(value, types.FunctionType)
        super().__setattr__(name, Callable(value) if is_function else value)


class Callable:
    """Takes the attributes that ctypes' functions have."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setattr(runtime, "_libraries", {})
    return Library()


def test_counters_as_json_instead_of_the_table(library, tmp_path, monkeypatch, capsys):
    file = tmp_path / "stats.json"
    monkeypatch.setenv("HOROVOD_OPT_STATS_JSON", str(file))
    runtime.configure(library)
    assert library.settings.stats == 1  # so that they are gathered
    runtime.report(library)
    assert [rank["rank"] for rank in json.loads(file.read_text())] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["stats.json"]
    assert capsys.readouterr().err == ""


def test_counters_as_json_besides_the_table(library, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOROVOD_OPT_STATS_JSON", str(tmp_path / "stats.json"))
    monkeypatch.setenv("HOROVOD_OPT_STATS", "1")
    runtime.configure(library)
    runtime.report(library)
    assert (tmp_path / "stats.json").exists()
    assert "What the background thread cost" in capsys.readouterr().err


def test_counters_that_cannot_be_written_do_not_fail_the_job(library, tmp_path, monkeypatch,
                                                             capsys):
    monkeypatch.setenv("HOROVOD_OPT_STATS_JSON", str(tmp_path / "none" / "stats.json"))
    runtime.configure(library)
    runtime.report(library)
    assert "stats.json cannot be written: No such file" in capsys.readouterr().err


def test_no_counters_are_gathered_unless_asked_for(library):
    runtime.configure(library)
    assert library.settings.stats == 0
