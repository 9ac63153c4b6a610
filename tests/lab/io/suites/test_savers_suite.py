"""The suite savers: what counts as a loss, and how it comes about."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.io.crashes.operations import FILE, LINK, MARKED, RENAME, SYNC, WRITE
from horovod_lab.io.crashes.states import Crashes
from horovod_lab.io.crashes.story import tell
from horovod_lab.io.savers import ERROR, NEW, NEW_FOUND, NOTHING, OLD, OLD_FOUND, OTHER, SAVERS
from horovod_lab.io.savers.job import answer, weights
from horovod_lab.io.suites.savers.pictures import section
from horovod_lab.io.suites.savers.results import (
    AFTER,
    BEFORE,
    Found,
    count,
    examples,
    is_loss,
    kill_losses,
    losses,
    targets,
)
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_opt import cli

RECORDED = [(FILE, 1), (LINK, 1, 0, b"a"), (WRITE, 1, 0, b"old"), (MARKED, OLD),
            (FILE, 2), (LINK, 2, 0, b"b"), (WRITE, 2, 0, b"new"), (SYNC, 2),
            (RENAME, 0, b"b", 0, b"a"), (MARKED, NEW)]


@pytest.fixture
def found(tmp_path) -> list[Found]:
    def outcome(contents) -> str:
        return {b"old": OLD_FOUND, b"new": NEW_FOUND}.get(contents.get("a"), OTHER)

    return [Found(state, outcome(state.contents), "") for state in
            Crashes(tmp_path, RECORDED, OLD).states()]


def test_the_old_version_will_do_until_the_call_has_returned():
    assert [is_loss(BEFORE, outcome) for outcome in (NEW_FOUND, OLD_FOUND, NOTHING, ERROR, OTHER)
            ] == [False, False, True, True, True]
    assert is_loss(AFTER, OLD_FOUND) and not is_loss(AFTER, NEW_FOUND)


def test_a_rename_that_is_not_synced_may_be_lost_after_all(found):
    counts = count(found)
    assert counts[BEFORE][OTHER] == 0 and counts[AFTER][OLD_FOUND] > 0
    loss, = examples(found)
    assert tell(RECORDED, OLD, loss.state)[-3:] == ["rename b to a: lost", "new is saved", "crash"]
    assert tell(RECORDED, OLD, loss.state)[:2] == ["old is saved", "create b"]


def measurement(saver: str, found: list[Found]) -> dict:
    return {"saver": saver, "versions": {"torch": "2"}, "states": count(found),
            "killed": count(each for each in found if not each.state.lost), "losses": [
                {"phase": AFTER, "outcome": OLD_FOUND, "error": "", "calls": ["a", "crash"]}]}


def test_it_is_shown_with_targets(found):
    document = {"measurements": [measurement("torch", found), {"saver": "orbax", "failed": "why"}]}
    there = document["measurements"][0]
    assert losses(there) > 0 and kill_losses(there) == 0
    shown = section(document, targets=True)
    assert [row[0] for row in shown.grids[0].rows] == ["torch.save, one name",
                                                       "orbax CheckpointManager"]
    assert targets(document)[0] == ("C1 states that hio.torch.Resume loses: 0", "", "not measured")
    assert targets(document)[3][2] == "yes"


def test_time_is_judged_beside_the_other_way():
    document = {"measurements": [
        {"saver": way, "lost_seconds": lost, "durable_seconds": durable, "whole_seconds": 1.0}
        for way, lost, durable in (("direct", 26.0, 9.0), ("burst", 9.9, 3.0),
                                   ("burst-memory", 1.3, 9.0), ("async", 1.0, 10.0))]}
    assert [row[1:] for row in targets(document)[-3:]] == [("0.38", "yes"), ("1.30", "no"),
                                                           ("0.90", "yes")]
    assert len(section(document, targets=True).grids) == 2


def test_loaders_tell_what_they_find(tmp_path):
    class Loader:
        def load(self, folder):
            if isinstance(self.found, BaseException):
                raise self.found
            return self.found

    loader = Loader()
    for found, outcome in ((weights(1), OLD_FOUND), (weights(2), NEW_FOUND), (None, NOTHING),
                           (weights(3), OTHER), (weights(1)[:-1], OTHER), (ValueError(), ERROR),
                           (FileNotFoundError(), NOTHING), (BaseException(), ERROR)):
        loader.found = found
        assert answer(loader, tmp_path)[0] == outcome
    (tmp_path / "file").write_text("")
    loader.found = FileNotFoundError()
    assert answer(loader, tmp_path)[0] == ERROR


def test_a_small_run_with_what_is_here(tmp_path, capfd):
    try:
        CrashingStorage.check()
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    arguments = ["io", "bench", "--suite", "savers", "--only", "hio-buffer,orbax", "--drawn", "1",
                 "--targets", "--output", str(tmp_path / "bench"), "--savers", ".venv-none"]
    assert cli.main(arguments) == 2
    results = json.loads((tmp_path / "bench" / "io-savers.json").read_text())["measurements"]
    by_name = {result["saver"]: result for result in results}
    assert losses(by_name["hio-buffer"]) == 0
    assert sum(by_name["hio-buffer"]["states"][AFTER].values()) > 10
    assert by_name["orbax"]["failed"].endswith("no .venv-none; remedy: make savers")
    assert set(by_name) <= set(SAVERS)


def test_another_storage_is_refused(capfd):
    assert cli.main(["io", "bench", "--suite", "savers", "--stand", "disk"]) == 2
    assert "has storages of its own" in capfd.readouterr().err
