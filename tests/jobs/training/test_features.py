"""Timeline, autotune and stall inspector look into the background thread's loop; each mode changes
the loop.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter, defaultdict

import pytest
from jobs import Job

from horovod_opt import cli, stats_lines

MODES = ("gs", "nbcs", "topo")
SUMS = [1.0, 3.0, 5.0]  # of the tensors of one step, over both ranks


# The least that tunes: no warm-up, one step a sample, few guesses. Read when Horovod is loaded.
SHORT = {
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3",
}


@pytest.fixture(params=MODES)
def features(request, shared_job) -> Job:
    return shared_job("features", request.param, **SHORT).expect_success()


def of_each_rank(job: Job, what: str) -> list:
    return [report[what] for report in job.of_ranks(2)]


def test_timeline(features):
    traced = of_each_rank(features, "traced")
    assert all(step == SUMS[:2] for steps in traced for step in steps)
    events = json.loads((features.folder / "timeline.json").read_text())
    tracks = {
        event["args"]["name"]: event["pid"]
        for event in events
        if event["ph"] == "M" and "name" in event["args"]
    }
    for name in ("allreduce.traced.0", "allreduce.traced.1"):
        activities, running = Counter(), []
        for event in events:
            if event.get("pid") != tracks[name]:
                continue
            if event["ph"] == "B":
                running.append(event["name"])
            elif event["ph"] == "E":
                activities[running.pop()] += 1
        assert activities["NEGOTIATE_ALLREDUCE"] > 0
        assert activities["ALLREDUCE"] == len(traced[0])
    assert any(event.get("name") == "CYCLE_START" for event in events)


def test_counters_of_every_rank_as_lines(features):
    for rank in range(2):
        lines = stats_lines.read(stats_lines.file_of(features.folder / "counters", rank))
        assert len(lines) > 1
        assert {(line["rank"], line["size"], line["framework"]) for line in lines} == {
            (rank, 2, "torch")}
        for field in ("time", "monotonic", "cycles", "data_bytes", "elapsed_seconds"):
            values = [line[field] for line in lines]
            assert values == sorted(values)
        assert lines[-1]["data_bytes"] > 0


def test_timelines_of_all_ranks_are_one_trace(features, tmp_path):
    """Whoever waited says for whom, and nothing ends before the last rank has begun."""
    output = tmp_path / "trace.json"
    assert cli.main(["trace", str(features.folder / "timeline.json"), "--stats",
                     str(features.folder / "counters"), "--output", str(output)]) == 0
    trace = json.loads(output.read_text())
    assert trace["otherData"]["clock_error_us"] == {}  # one host
    events = trace["traceEvents"]
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
               if event["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == {0, 1}
    for rank in range(2):
        assert any(threads[event["pid"], event["tid"]] == "operations" and event["pid"] == rank
                   for event in spans)
    assert {event["name"] for event in events if event["ph"] == "C"} == {
        "cores used", "share of time", "reduced, MB/s"}
    mode = stats_lines.read(stats_lines.file_of(features.folder / "counters", 0))[0]["mode"]
    assert ("buckets" in threads.values()) == (mode == "topo")
    if mode == "topo":
        check_buckets(spans)


def check_buckets(spans: list[dict]) -> None:
    by_meeting = defaultdict(dict)
    for event in spans:
        if event["name"].startswith("bucket "):
            facts = event["args"]
            by_meeting[facts["plan"], facts["iteration"], event["name"]][event["pid"]] = event
    assert by_meeting and all(set(ranks) == {0, 1} for ranks in by_meeting.values())
    for ranks in by_meeting.values():
        last = max(event["ts"] for event in ranks.values())
        assert all(event["ts"] + event["dur"] >= last - 2 for event in ranks.values())  # us
    waits = Counter((event["pid"], event["name"]) for event in spans
                    if event["name"].startswith("waits for rank"))
    assert set(waits) <= {(0, "waits for rank 1"), (1, "waits for rank 0")} and waits


def test_timeline_of_tensors_with_strange_names(features):
    events = json.loads((features.folder / "timeline.json").read_text())
    tracks = {event["args"]["name"] for event in events
              if event["ph"] == "M" and "name" in event["args"]}
    for report in features.of_ranks(2):
        assert report["strange"] == [2.0 * i + 1 for i in range(len(report["names"]))]
        assert {f"allreduce.{name}" for name in report["names"]} <= tracks


def test_autotune(features):
    tuned = of_each_rank(features, "tuned")
    assert all(step == SUMS for steps in tuned for step in steps)
    with (features.folder / "autotune.csv").open() as file:
        tries = list(csv.DictReader(file))
    assert len({tried["cycle_time_ms"] for tried in tries}) > 3
    assert len({tried["tensor_fusion_threshold"] for tried in tries}) > 3
    assert all(math.isfinite(float(number)) for tried in tries for number in tried.values())
    # When it has finished, it repeats the best.
    assert max(tries, key=lambda tried: float(tried["score"]))["score"] == tries[-1]["score"]


def test_autotune_while_a_rank_has_joined(features):
    assert of_each_rank(features, "joined") == [SUMS[:2], [1.0, 2.0]]


def test_groups_are_fused_alike_where_a_rank_has_joined(features):
    """With HOROVOD_DISABLE_GROUP_FUSION."""
    sizes = 179, 38, 77, 5
    both, rank_1 = [2.0 * size + 1 for size in sizes], [1.0 + size for size in sizes]
    assert of_each_rank(features, "grouped") == [[both, both, both], [both, rank_1, both]]


def test_what_a_rank_that_has_joined_cannot_be_part_of_is_refused(features):
    """Also calls that are cached or planned; afterwards they are as before."""
    of_rank_0, of_rank_1 = of_each_rank(features, "refused")
    assert of_rank_0 == ["allgather of 6", "alltoall of 4"] == of_rank_1[2:]
    for what, text in zip(("allgather", "alltoall"), of_rank_1):
        assert re.match(f"{what} is not supported with Join|Horovod: a rank has joined, so the "
                        f"{what} '{what}.refused", text, re.IGNORECASE)


def test_stall_is_reported(features):
    assert of_each_rank(features, "late") == [SUMS[:2]] * 2
    reported = " ".join(re.findall(r"\b1!?: \[(.*?)\]", features.output))
    assert {"allreduce.late.cached", "allreduce.late.new"} <= set(re.split(r"[, ]+", reported))


def test_stall_ends_the_job(features):
    for rank, outcome in enumerate(of_each_rank(features, "ended")):
        assert outcome.startswith("HorovodInternalError: Horovod has been shut down"), rank
    assert re.search(r"\b0!?: \[allreduce\.only\.rank\.1\]", features.output)
    assert re.search(r"\b1!?: \[allreduce\.only\.rank\.0\]", features.output)
    assert "Will shutdown" in features.output
