"""What one rank cannot open, no rank opens: all raise the same text, and the job can go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import lmdb
import pytest
from data_sets import environment, files, framed, tar, tfrecord
from gloo_ranks import GlooRanks
from jobs import rank_lines, run_job

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to show each rank other files, as another user")

RECORDS = [bytes([i]) * (100 + i) for i in range(40)]
# By name: what is said, and of which kind the error is. What is opened is below.
SAID = {
    "truncated TFRecord": (r"cut\.tfrecord: truncated: record 39", "DataError"),
    "wrong checksum of a length": (r"bad\.tfrecord: record 1, at byte 116: the checksum of its "
                                   r"length is wrong", "DataError"),
    "truncated tar": (r"cut\.tar: truncated", "DataError"),
    "tar with a link": (r"link\.tar: member '1\.jpg': it is a link to '0\.jpg'", "DataError"),
    "tar that leaves its folder": (r"member '\.\./1\.jpg': its path leaves", "DataError"),
    "truncated LMDB": (r"data\.mdb: truncated or damaged", "DataError"),
    "LMDB with DUPSORT": (r"data\.mdb: it is made with DUPSORT", "DataError"),
    "LMDB with sub-databases": (r"data\.mdb: it holds the sub-database b'inner'", "DataError"),
    "nothing there": (r"nothing-\*\.tfrecord: no such files", "DataError"),
    "no samples": (r"1 files hold no sample", "DataError"),
    "fewer samples than ranks": (r"the data set has 1 samples for \d ranks", "InputError"),
    "seeds differ": (r"seed differs between the ranks: 0 on rank 0; 1 on ranks? 1", "InputError"),
    "patterns differ": (r"pattern differs between the ranks: .*good.* on rank 0; .*a\.tar",
                        "InputError"),
    "batch sizes differ": (r"batch_size differs between the ranks: 2 on rank 0; 3 on ranks? 1",
                           "InputError"),
    "a record larger than memory": (r"memory=1\.00 KiB is less than the \S+ KiB that shards=",
                                    "InputError"),
    "a newer state": (r"the state has version 3, this horovod-opt reads up to 2", "InputError"),
    "unreadable for one": (r"rank \d: .*locked/b\.tfrecord: cannot be read for user id 65534: "
                           "Permission denied", "DataError"),
    "missing for one": (r"data differs between the ranks: .*2 files.* on ranks? [\d, ]+; .*1 files",
                        "InputError"),
    "another size for one": (r"data differs between the ranks: .*; ", "InputError"),
    "other contents for one": (r"contents differs between the ranks", "InputError"),
    "no index for one of a node": (r"rank 1: .*\.hoi: no index, or not the one .*; remedy",
                                  "DataError"),
    "nothing wrong": ("", ""),
}


def make_data(root: Path) -> dict[str, dict]:
    """The cases, but for those in which ranks see other files."""
    good = tfrecord(root / "good.tfrecord", RECORDS)
    whole = good.read_bytes()
    (root / "cut.tfrecord").write_bytes(whole[:-1])
    damaged = bytearray(whole)
    damaged[len(framed(RECORDS[0])) + 3] ^= 1
    (root / "bad.tfrecord").write_bytes(damaged)
    archive = tar(root / "a.tar", [(f"{i}.jpg", record) for i, record in enumerate(RECORDS)])
    (root / "cut.tar").write_bytes(archive.read_bytes()[:20_000 - 300])
    link = tarfile.TarInfo("1.jpg")
    link.type, link.linkname = tarfile.SYMTYPE, "0.jpg"
    tar(root / "link.tar", [("0.jpg", b"x"), link])
    tar(root / "up.tar", [("0.jpg", b"x"), ("../1.jpg", b"x")])
    records = {b"%05d" % i: bytes(200) for i in range(2000)}
    os.truncate(environment(root / "cut.lmdb", records) / "data.mdb", 40_000)
    dupsort = environment(root / "dup.lmdb", {b"a": b"b"}) / "data.mdb"
    content = bytearray(dupsort.read_bytes())
    for meta in (16, 4096 + 16):  # py-lmdb itself does not make such files
        content[meta + 24 + 48 + 4] |= 0x04
    dupsort.write_bytes(content)
    with lmdb.open(str(root / "inner.lmdb"), max_dbs=1) as database:
        database.open_db(b"inner")
    tfrecord(root / "empty.tfrecord", [])
    tfrecord(root / "one.tfrecord", RECORDS[:1])
    patterns = {
        "truncated TFRecord": "cut.tfrecord", "wrong checksum of a length": "bad.tfrecord",
        "truncated tar": "cut.tar", "tar with a link": "link.tar",
        "tar that leaves its folder": "up.tar", "truncated LMDB": "cut.lmdb",
        "LMDB with DUPSORT": "dup.lmdb", "LMDB with sub-databases": "inner.lmdb",
        "nothing there": "nothing-*.tfrecord", "no samples": "empty.tfrecord",
        "fewer samples than ranks": "one.tfrecord", "seeds differ": "good.tfrecord",
        "batch sizes differ": "good.tfrecord", "a record larger than memory": "good.tfrecord",
        "a newer state": "good.tfrecord"}
    cases = {name: {"pattern": str(root / pattern)} for name, pattern in patterns.items()}
    cases["patterns differ"] = {"pattern": [str(good), *[str(archive)] * 2]}
    cases["seeds differ"]["open"] = {"seed": [0, 1, 1]}
    cases["batch sizes differ"]["loader"] = {"batch_size": [2, 3, 3]}
    cases["a record larger than memory"]["open"] = {"memory": 1024}
    cases["a newer state"]["state"] = {"version": 3}
    return cases


def make_views(root: Path, view: Path) -> tuple[dict[str, dict], dict[str, str]]:
    """Cases in which the last rank, another user's, sees other files; and what it sees."""
    cases = {}
    for case, name in {"unreadable for one": "locked", "missing for one": "missing",
                       "another size for one": "size",
                       "other contents for one": "contents"}.items():
        files(root / name, {f"{file}.tfrecord": b"".join(map(framed, RECORDS)) for file in "ab"})
        shutil.copytree(root / name, view / name)
        cases[case] = {"pattern": str(root / name / "*.tfrecord")}
    (root / "locked" / "b.tfrecord").chmod(0o600)
    (view / "locked" / "b.tfrecord").chmod(0o600)
    (view / "missing" / "b.tfrecord").unlink()
    tfrecord(view / "size" / "b.tfrecord", [b"longer", *RECORDS])
    theirs = view / "contents" / "b.tfrecord"
    status = theirs.stat()
    tfrecord(theirs, [RECORDS[0][:-1] + b"!", *RECORDS[1:]])
    assert theirs.stat().st_size == status.st_size
    os.utime(theirs, ns=(status.st_atime_ns, status.st_mtime_ns))
    return cases, {str(root / name): str(view / name) for name in ("missing", "size", "contents")}


@pytest.fixture(scope="module")
def refused(need, tmp_path_factory):
    """By framework and number of ranks: reports of all ranks, by case. A job for each is run once;
    its last rank is another user's, with a view of its own, and so a node of its own."""
    done = {}

    def run(framework: str, ranks: int) -> dict[str, list[dict]]:
        need("torch", *([framework] if framework != "torch" else []))
        if (framework, ranks) not in done:
            # Other users may not look into pytest's folders.
            with tempfile.TemporaryDirectory() as name:
                done[framework, ranks] = perform(framework, ranks, Path(name))
        return done[framework, ranks]

    def perform(framework: str, ranks: int, folder: Path) -> dict[str, list[dict]]:
        folder.chmod(0o777)
        for part in ("data", "other", "member", "cache"):
            (folder / part).mkdir()
        (folder / "cache").chmod(0o777)
        cases = make_data(folder / "data")
        views, shown = make_views(folder / "data", folder / "other")
        ranks_views = {str(ranks - 1): {"sees": shown, "nobody": True}}
        if ranks > 2:
            files(folder / "data" / "near", {"a.tfrecord": framed(b"x") * 9})
            shutil.copytree(folder / "data" / "near", folder / "member" / "near")
            views["no index for one of a node"] = {
                "pattern": str(folder / "data" / "near" / "*.tfrecord")}
            ranks_views["1"] = {
                "sees": {str(folder / "data" / "near"): str(folder / "member" / "near")}}
        well = {"nothing wrong": {"pattern": str(folder / "data" / "good.tfrecord")}}
        (folder / "cases.json").write_text(json.dumps(
            {"ranks": ranks_views, "cases": {**cases, **views, **well},
             "scratch": str(folder / "scratch.hoi")}))
        cache = {"XDG_CACHE_HOME": str(folder / "cache")}
        if framework == "torch":
            ends = GlooRanks(folder, "input_refused", "torch", folder / "cases.json", ranks=ranks,
                               **cache).wait(200)
            assert [rank.code for rank in ends] == [0] * ranks, ends
        else:
            run_job(folder, "input_refused", "horovod", folder / "cases.json", ranks=ranks,
                    controller=framework, **cache).expect_success()
        reports = rank_lines(folder, ranks)
        return {case: [next(line for line in lines if line["case"] == case) for lines in reports]
                for case in [line["case"] for line in reports[0]]}

    return run


@pytest.mark.parametrize("framework, ranks, case", [
    (framework, ranks, case) for framework, ranks in (("torch", 3), ("mpi", 3), ("gloo", 2))
    for case in SAID if ranks > 2 or case != "no index for one of a node"])
def test_all_ranks_raise_the_same(refused, framework, ranks, case):
    reports = refused(framework, ranks)
    errors = {(line["error"], line["kind"]) for line in reports[case]}
    assert len(reports[case]) == ranks and len(errors) == 1, errors
    (error, kind), = errors
    text, expected = SAID[case]
    assert kind == expected and re.search(text, error), error
    if expected:
        assert "; remedy: " in error
    else:
        assert sum(line["samples"] for line in reports[case]) == len(RECORDS)
