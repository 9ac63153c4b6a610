"""Which rows the matrix has, and what is installed for each."""

from __future__ import annotations

import json
import subprocess

import matrix_rows
import pytest
from matrix_rows import DEBIAN, MPICH, TENSORFLOW, TORCH, Row, Unusable, chosen, newest, plan
from quick_tests import SUITES
from row_environment import ROOT, TESTS_NEED, WHEELS, requirements, variables

ROWS = plan(["2.14", "2.15"])


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_all_versions_with_one_mpi_and_the_newest_with_the_others():
    assert names(ROWS) == [
        *(f"tensorflow-2.{minor}" for minor in range(16, 22)),
        *(f"torch-2.{minor}" for minor in (4, 7, 10, 13, 14, 15)),
        "mpich-tensorflow-2.21", "mpich-torch-2.15",
        "openmpi-4.1-tensorflow-2.21", "openmpi-4.1-torch-2.15"]


def test_a_newest_version_that_is_tried_anyway_is_one_row():
    assert [row.version for row in plan(["2.12", "2.13"]) if row.framework == TORCH] == [
        "2.4", "2.7", "2.10", "2.12", "2.13", "2.13", "2.13"]


def test_rows_sort_as_they_are_planned():
    assert sorted(reversed(ROWS), key=Row.place) == ROWS


@pytest.mark.parametrize("versions, expected", [
    (["2.15.0", "2.14.1", "2.14.0", "2.13.0+cpu", "2.13.0"], ["2.14", "2.15"]),
    (["2.9.1", "2.10.0", "2.8.0"], ["2.9", "2.10"]), (["3.0", "2.99.2"], ["2.99", "3.0"]),
    (["2.4.1"], ["2.4"])])
def test_the_newest_by_their_first_two_numbers(versions, expected):
    assert newest(versions) == expected


def test_pip_is_asked_for_the_newest(monkeypatch):
    names = []

    def run(command, **how):
        names.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps(
            {"name": "torch", "versions": ["2.6.0", "2.5.1"]}), "")

    monkeypatch.setattr(matrix_rows.subprocess, "run", run)
    assert matrix_rows.newest_of_index("torch") == ["2.5", "2.6"]
    assert names[0][-4:] == ["index", "versions", "--json", "torch"]


def test_without_an_answer_of_the_index_nothing_is_run(monkeypatch):
    monkeypatch.setattr(matrix_rows.subprocess, "run", lambda command, **how:
                        subprocess.CompletedProcess(command, 1, "", "ERROR: no network\n"))
    with pytest.raises(Unusable, match="pip index versions torch: ERROR: no network$"):
        matrix_rows.newest_of_index("torch")


@pytest.mark.parametrize("only, expected", [
    (["torch-2.4", "tensorflow-2.16"], ["torch-2.4", "tensorflow-2.16"]),
    (["mpich"], ["mpich-tensorflow-2.21", "mpich-torch-2.15"]),
    (["openmpi-4.1-torch", "openmpi-4.1-torch-2.15"], ["openmpi-4.1-torch-2.15"]),
    (["torch"], [f"torch-2.{minor}" for minor in (4, 7, 10, 13, 14, 15)])])
def test_some_rows(only, expected):
    assert names(chosen(ROWS, only)) == expected


@pytest.mark.parametrize("unknown", ["torch-2.1", "tensorflow-2.22", "open", ""])
def test_an_unknown_row_is_refused(unknown):
    with pytest.raises(Unusable, match=f"'{unknown}' is not one of tensorflow-2.16, .*-torch-2.15"):
        chosen(ROWS, ["torch-2.4", unknown])


@pytest.mark.parametrize("row, framework, mpi", [
    (Row(TENSORFLOW, "2.16"), "tensorflow-cpu==2.16.*", "openmpi=="),
    (Row(TORCH, "2.4"), "torch==2.4.*", "openmpi=="),
    (Row(TORCH, "2.15", MPICH), "torch==2.15.*", "mpich==")])
def test_one_framework_and_an_mpi_are_installed(row, framework, mpi):
    first, second, *tests = requirements(row)
    assert (first, second[:len(mpi)]) == (framework, mpi)
    assert [line.partition("==")[0] for line in tests] == [*TESTS_NEED]
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert {second, *tests} <= set(constraints)


def test_debians_mpi_is_no_wheel():
    names = {line.partition("==")[0] for line in requirements(Row(TORCH, "2.15", DEBIAN))}
    assert names == {"torch", *TESTS_NEED}
    assert not names & {*WHEELS.values()}


def test_a_build_leaves_nothing_out():
    environ = {"HOROVOD_OPT_ANY_VERSION": "1", "HOROVOD_WITH_MPI": "1", "HOROVOD_WITH_GLOO": "1"}
    assert variables(Row(TENSORFLOW, "2.16")) == {**environ, "HOROVOD_WITH_TENSORFLOW": "1"}
    assert variables(Row(TORCH, "2.4")) == {**environ, "HOROVOD_WITH_PYTORCH": "1"}


def test_the_tests_of_every_suite_are_there():
    for suites in SUITES.values():
        assert len({suite.name for suite in suites}) == len(suites)
        for suite in suites:
            assert not suite.launched and (ROOT / "tests" / suite.file).is_file(), suite.file
