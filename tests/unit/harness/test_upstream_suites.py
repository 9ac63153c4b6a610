"""What tests/by_hand/upstream makes of outcomes, of a hang, and of what it cannot run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from rich.console import Console

UPSTREAM = Path(__file__).parents[2] / "by_hand" / "upstream"

import bfloat16
import command
import environment
import launch
from launch import Column, Job
from outcomes import JOB, Failure, Outcome, RankLog, Run, everywhere, merge, regressions
from report import show
from results import Results
from suites import SUITES, Suite

PASSED, SKIPPED, FAILED = Outcome("passed"), Outcome("skipped", "no GPU"), Outcome("failed", "bad")


@pytest.fixture
def checkout(tmp_path):
    """Something that looks like upstream's repository."""
    package = tmp_path / "upstream" / "horovod" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("from horovod.runner import run\n\n__version__ = '0.28.1'\n")
    (tmp_path / "upstream" / "test" / "parallel").mkdir(parents=True)
    return tmp_path / "upstream"


def rank_log(tests=None, running="", ended=True) -> RankLog:
    return RankLog(dict(tests or {}), running, ended)


def run_of(**statuses: str) -> Run:
    return Run({test: Outcome(status, "why") for test, status in statuses.items()})


def test_one_failed_rank_fails_the_test():
    tests = merge([rank_log({"a": PASSED, "b": PASSED}), rank_log({"a": FAILED, "b": PASSED})], "")
    assert tests == {"a": Outcome("failed", "rank 1: bad"), "b": PASSED}


def test_the_same_error_on_all_ranks_is_told_once():
    assert merge([rank_log({"a": FAILED})] * 2, "") == {"a": FAILED}


def test_a_test_is_skipped_if_every_rank_skips_it():
    tests = merge([rank_log({"a": SKIPPED, "b": SKIPPED}), rank_log({"a": PASSED, "b": SKIPPED})],
                  "")
    assert tests == {"a": PASSED, "b": SKIPPED}


def test_a_hang_fails_the_test_that_runs_and_keeps_the_others():
    logs = [rank_log({"a": PASSED}, running="b", ended=False),
            rank_log({"a": PASSED}, running="b", ended=False)]
    assert merge(logs, "no end after 9 s") == {
        "a": PASSED, "b": Outcome("failed", "no end after 9 s")}


def test_a_rank_that_died_has_no_outcome_for_what_others_passed():
    tests = merge([rank_log({"a": PASSED, "b": PASSED}), rank_log({}, running="a", ended=False)],
                  "the job ended early")
    assert tests["a"] == Outcome("failed", "rank 1: the job ended early")
    assert tests["b"] == Outcome("failed", "rank 1: no outcome")


def test_a_job_that_breaks_outside_of_tests_is_a_failure():
    ended = [rank_log({"a": PASSED})]
    assert merge(ended, "exit code 139") == {"a": PASSED, JOB: Outcome("failed", "exit code 139")}
    assert merge([rank_log()], "") == {JOB: Outcome("failed", "no test ran")}


def test_lines_of_a_rank(tmp_path):
    lines = [
        {"test": "a"}, {"test": "a", "outcome": "passed", "why": ""},
        {"test": "a", "outcome": "failed", "why": "in teardown"},
        {"test": "b"}, {"test": "b", "outcome": "failed", "why": "", "subtest": True},
        {"test": "b", "outcome": "passed", "why": ""},
        {"test": "c"}, {"test": "c", "outcome": "passed", "why": "", "subtest": True},
    ]
    path = tmp_path / "rank-0.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"test": "c", "outc')
    log = RankLog.read(path)
    assert {name: outcome.status for name, outcome in log.outcomes.items()} == {
        "a": "failed", "b": "failed", "c": "passed"}
    assert merge([log], "no end")["c"] == Outcome("failed", "no end")
    assert (log.running, log.ended) == ("c", False)
    assert RankLog.read(tmp_path / "missing") == RankLog()


def test_regressions_against_either_reference():
    runs = {
        "plain": {"s": run_of(a="passed", b="failed", c="failed", d="skipped")},
        "off": {"s": run_of(a="failed", b="passed", c="failed", d="skipped")},
        "topo": {"s": run_of(a="passed", b="skipped", c="failed", d="failed")},
    }
    assert regressions(runs, ["plain", "off"]) == [
        Failure("s", "a", "off", "failed: why"), Failure("s", "b", "topo", "skipped: why")]
    assert everywhere(runs) == [Failure("s", "c", "topo", "why")]


def test_the_reference_has_no_regressions_of_its_own():
    assert regressions({"plain": {"s": run_of(a="failed")}, "off": {"s": run_of(a="passed")}},
                       ["plain", "off"]) == []


def test_tests_that_a_hang_kept_from_running_are_regressions():
    hung = Run({"a": Outcome("failed", "no end")}, cut="no end after 9 s")
    runs = {"off": {"s": run_of(a="passed", b="passed", c="passed", d="skipped")},
            "topo": {"s": hung}}
    assert regressions(runs, ["off"]) == [
        Failure("s", "a", "topo", "failed: no end"),
        Failure("s", "(other tests)", "topo",
                "2 tests that pass elsewhere did not run: no end after 9 s")]


def test_a_job_that_broke_after_its_tests_is_a_regression():
    broken = Run({"a": PASSED, JOB: Outcome("failed", "exit code 139")}, cut="exit code 139")
    runs = {"off": {"s": run_of(a="passed")}, "gs": {"s": broken}}
    assert regressions(runs, ["off"]) == [
        Failure("s", JOB, "gs", "failed: exit code 139")]
    assert regressions({"off": {"s": broken}, "gs": {"s": broken}}, ["off"]) == []


def test_a_suite_that_the_reference_has_not_run_is_no_regression():
    assert regressions({"off": {}, "gs": {"s": run_of(a="failed")}}, ["off"]) == []


def test_upstreams_tests_try_bfloat16_where_they_try_float16(checkout, tmp_path):
    tests = checkout / "test" / "parallel"
    (tests / "test_torch.py").write_text(
        "types = [torch.HalfTensor, torch.cuda.HalfTensor]\nhalf = [torch.float16, torch.int]\n")
    for name in "test_tensorflow.py", "test_tensorflow_process_sets.py":
        (tests / name).write_text("types = [tf.int8, tf.float16, tf.float32]\nt == tf.float16\n")
    (tests / "test_other.py").write_text("types = [torch.HalfTensor]\n")
    copy = bfloat16.copy_with_bfloat16(checkout, tmp_path / "copy") / "test" / "parallel"
    assert (copy / "test_torch.py").read_text() == (
        "types = [torch.HalfTensor, torch.BFloat16Tensor, torch.cuda.HalfTensor]\n"
        "half = [torch.float16, torch.bfloat16, torch.int]\n")
    assert (copy / "test_tensorflow.py").read_text() == (
        "types = [tf.int8, tf.float16, tf.bfloat16, tf.float32]\nt in (tf.float16, tf.bfloat16)\n")
    assert (copy / "test_other.py").read_text() == "types = [torch.HalfTensor]\n"
    assert (tmp_path / "copy" / "pytest.ini").read_text() == "[pytest]\n"
    (tests / "test_torch.py").write_text("types = []\n")
    with pytest.raises(environment.Unusable, match="test_torch.py has no .*HalfTensor"):
        bfloat16.copy_with_bfloat16(checkout, tmp_path / "copy")


def run_suite(checkout: Path, text: str, tmp_path: Path, seconds: float,
              tick: Callable[[int], None] = lambda run: None, launched: bool = False,
              selected: str = "") -> Run:
    file = checkout / "test" / "single" / "test_it.py"
    file.parent.mkdir()
    file.write_text(text)
    job = Job(Suite("it", "single/test_it.py", launched=launched, selected=selected),
              Column("off-2", sys.executable, "off", 2), checkout / "test", controller="mpi")
    return job.run(tmp_path / "out", seconds, tick)


def test_outcomes_of_a_real_suite(checkout, tmp_path):
    run = run_suite(checkout, """
import os, pytest, unittest
def test_mode(): assert os.environ["HOROVOD_OPT_MODE"] == "off"
def test_wrong(): assert 1 == 2, "they differ"
def test_raises(): raise KeyError("first line\\nsecond")
@pytest.mark.skip(reason="no GPU")
def test_skipped(): pass
@pytest.fixture
def broken():
    yield
    raise OSError("at the end")
def test_teardown(broken): pass
class TestParts(unittest.TestCase):
    def parts(self, *skipped):
        for skip in skipped:
            with self.subTest():
                if skip: self.skipTest("no GPU")
    def test_some(self): self.parts(True, False)
    def test_none(self): self.parts(True, True)
""", tmp_path, 100)
    assert run.cut == ""
    assert run.tests == {
        "test_mode": PASSED,
        "test_wrong": Outcome("failed", "AssertionError: they differ"),
        "test_raises": Outcome("failed", "KeyError: 'first line\\nsecond'"),
        "test_skipped": Outcome("skipped", "Skipped: no GPU"),
        "test_teardown": Outcome("failed", "OSError: at the end"),
        "TestParts::test_some": PASSED,
        "TestParts::test_none": Outcome("skipped", "Skipped: no GPU"),
    }
    assert (tmp_path / "out" / "part-1" / "rank-0.xml").exists()


def test_some_tests_of_a_suite(checkout, tmp_path):
    run = run_suite(checkout, """
import pytest
@pytest.mark.parametrize("kind", ["torch-mpi", "torch-gloo", "tensorflow-mpi"])
def test_result(kind): pass
def test_torch(): pass
""", tmp_path, 100, selected="torch and not gloo")
    assert run.tests == {"test_result[torch-mpi]": PASSED, "test_torch": PASSED}


def test_a_suite_that_cannot_be_imported_fails(checkout, tmp_path):
    run = run_suite(checkout, "import no_such_module\n", tmp_path, 100)
    assert run.tests == {"(collection)": Outcome(
        "failed", "E   ModuleNotFoundError: No module named 'no_such_module'")}


def test_a_hang_is_a_failure_with_its_last_words(checkout, tmp_path):
    run = run_suite(checkout, "import time\ntime.sleep(1000)\n", tmp_path, 0)
    assert run.tests == {JOB: Outcome("failed", "no end after 0 s")}
    assert run.cut == "no end after 0 s" and "--- job.txt" in run.tail


# In place of horovodrun. Rank 1 begins when the file `late` is gone, or was never there.
LAUNCHER = """
import os, subprocess, sys, time
at = sys.argv.index("-np")
ranks = []
for rank in map(str, range(int(sys.argv[at + 1]))):
    while rank == "1" and os.path.exists({late!r}):
        time.sleep(0.01)
    ranks.append(subprocess.Popen(sys.argv[at + 2:], env={{**os.environ, "HOROVOD_RANK": rank}}))
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.fixture
def between_looks(tmp_path, monkeypatch):
    """Sets whether the next look at the ranks is at once, by the logs that they have now. Returns
    the file that keeps rank 1 from its begin."""
    late = tmp_path / "late"
    (tmp_path / "launcher.py").write_text(LAUNCHER.format(late=str(late)))
    monkeypatch.setattr(launch, "HOROVODRUN", tmp_path / "launcher.py")

    def between_looks(is_at_once: Callable[[list[RankLog]], bool]) -> Path:
        def sleep(seconds: float) -> None:
            part = max((tmp_path / "out").glob("part-*"), key=lambda path: path.stat().st_mtime_ns)
            if not is_at_once([RankLog.read(part / f"rank-{rank}.jsonl") for rank in range(2)]):
                time.sleep(seconds)

        monkeypatch.setattr(launch, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
        return late

    return between_looks


def test_the_tests_after_one_in_which_all_ranks_stand_still_run_as_well(
        checkout, tmp_path, between_looks):
    between_looks(lambda logs: all(log.running.startswith("test_waits") for log in logs))
    run = run_suite(checkout, """
import os, time
def test_first(): pass
def test_waits(): time.sleep(1000)
def test_second(): assert os.environ["HOROVOD_RANK"] == "0", "not here"
def test_waits_again(): time.sleep(1000)
""", tmp_path, 300, launched=True)
    waited = Outcome("failed", "all ranks stood still")
    assert run.tests == {"test_first": PASSED, "test_waits": waited, "test_waits_again": waited,
                         "test_second": Outcome("failed", "rank 1: AssertionError: not here")}
    assert run.cut == ""


def test_a_rank_that_begins_late_does_not_stand_still(checkout, tmp_path, between_looks):
    looks = 0

    def is_at_once(logs: list[RankLog]) -> bool:
        nonlocal looks
        looks += logs[0].ended  # what it has written is all
        if looks > 2 * launch.STILL_LOOKS:
            late.unlink(missing_ok=True)
        return logs[0].ended and late.exists()

    late = between_looks(is_at_once)
    late.touch()
    run = run_suite(checkout, "def test_it(): pass\n", tmp_path, 300, launched=True)
    assert (run.tests, run.cut) == ({"test_it": PASSED}, "")
    assert looks > 2 * launch.STILL_LOOKS


@pytest.mark.parametrize("environ", [None, {}], ids=["marked", "without an environment"])
def test_an_interrupted_job_is_ended_with_its_children(checkout, tmp_path, environ):
    pid = tmp_path / "pid"

    def interrupt(run: int) -> None:
        if pid.exists() and pid.read_text().endswith("."):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_suite(checkout, f"""
import os, subprocess, time
def test_hangs():
    child = subprocess.Popen(["sleep", "1000"], env={environ}, start_new_session=True)
    print(child.pid, end=".", file=open({str(pid)!r}, "w"), flush=True)
    time.sleep(1000)
""", tmp_path, 100, interrupt)
    child = int(pid.read_text()[:-1])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_results_survive_and_are_kept_apart(tmp_path):
    path, about = tmp_path / "results.json", {"controller": "mpi"}
    run = Run({"a": FAILED}, 1.5, "no end after 9 s", "last words")
    Results(path, about, resume=True).add("topo", "torch", run)
    again = Results(path, {**about, "plain": {"horovod": "0.28.1"}}, resume=True)
    assert again.select(["off", "topo"], ["torch"]) == {"off": {}, "topo": {"torch": run}}
    assert again.has("topo", "torch") and not again.has("off", "torch")
    assert Results(path, about, resume=False).runs == again.runs
    assert Results(path, {"controller": "gloo"}, resume=False).runs == {}
    with pytest.raises(environment.Unusable, match="controller = mpi, not gloo"):
        Results(path, {"controller": "gloo"}, resume=True)
    path.write_text("[]")
    with pytest.raises(environment.Unusable, match="no results of the suites"):
        Results(path, about, resume=True)
    assert Results(path, about, resume=False).runs == {}


def test_a_checkout_of_the_right_version_only(checkout, tmp_path):
    assert environment.check_checkout(checkout) == checkout
    with pytest.raises(environment.Unusable, match="is no checkout"):
        environment.check_checkout(tmp_path)
    (checkout / "horovod" / "__init__.py").write_text("__version__ = '0.27.0'\n")
    with pytest.raises(environment.Unusable, match=r"Horovod 0\.27\.0, not 0\.28\.1"):
        environment.check_checkout(checkout)


@pytest.mark.parametrize("arguments", [
    ["--modes", "off,fast"], ["--modes", "topo"], ["--suites", "torch,mxnet"], ["--ranks", "2,0"],
    ["--timeout", "soon"]])
def test_arguments_that_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command.parse_arguments(["path", *arguments])
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_path_that_is_none_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["run", str(tmp_path)])
    assert command.main() == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_every_number_of_ranks_has_its_own_reference(checkout, monkeypatch, capsys, tmp_path):
    ran = []

    def run(job, folder, seconds, tick):
        ran.append((job.column.name, job.suite.name))
        status = "failed" if job.column.name in ("off-2", "topo-3") else "passed"
        return run_of(a=status)

    monkeypatch.setattr(Job, "run", run)
    monkeypatch.setattr(command, "examine", lambda *arguments, patched: {})
    monkeypatch.setattr(sys, "argv", ["run", str(checkout), "--modes", "off,topo", "--ranks", "2,3",
                                      "--suites", "torch,util", "--json", str(tmp_path / "r.json")])
    assert command.main() == 1
    assert ran == [("off-2", "torch"), ("off-2", "util"), ("topo-2", "torch"), ("topo-2", "util"),
                   ("off-3", "torch"), ("topo-3", "torch")]
    output = capsys.readouterr().out
    assert "a [topo-3]" in output and "a [off-2]" not in output


def test_modes_are_named_as_the_setting_names_them():
    assert command.parse_arguments(["path", "--modes", "nbcs+gs,GS,off"]).modes == [
        "gs+nbcs", "gs", "off"]


def test_the_environment_of_a_column(monkeypatch):
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "1")
    monkeypatch.setenv("HOROVOD_OPT_VERIFY", "1")
    monkeypatch.setenv("HOROVOD_OPT_MODE", "nbcs")
    environ = Column("topo-2", "/env/bin/python", "topo", 2).environ()
    plain = Column("plain-2", "/env/bin/python", None, 2).environ()
    assert environ["HOROVOD_OPT_MODE"] == "topo" and environ["HOROVOD_OPT_VERIFY"] == "1"
    assert "HOROVOD_CYCLE_TIME" not in environ
    assert not [name for name in plain if "HOROVOD" in name]
    assert plain["PATH"].startswith("/env/bin:")


def test_the_report_names_the_tests():
    console = Console(record=True, width=120, file=open(os.devnull, "w"))
    runs = {"off": {"s": run_of(a="passed", b="failed")},
            "topo": {"s": Run({"a": FAILED, "b": FAILED}, cut="no end after 9 s")}}
    show(console, runs, regressions(runs, ["off"]), everywhere(runs))
    text = console.export_text()
    assert "1 / 1 / 0" in text and "0 / 2 / 0 !" in text
    assert "a [topo]" in text and "bad" in text
    assert text.index("Pass in a reference") < text.index("Fail everywhere:")


def test_names_of_suites_are_unique():
    assert len({suite.name for suite in SUITES}) == len(SUITES)
