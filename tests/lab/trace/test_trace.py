"""`horovod-opt trace`: timelines of ranks on hosts whose clocks differ, whole and cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_lab.trace import rank_timeline
from horovod_lab.trace.chrome_trace import Trace, lanes
from horovod_lab.trace.clocks import align
from horovod_lab.trace.rank_timeline import RankTimeline, Span, TimelineError, bucket_of
from horovod_opt import cli


def bucket_name(number: int, iteration: int) -> str:
    return f"bucket {number}, iteration {iteration}, set 0, plan 0a1b, 3 tensors, 96 bytes"


def timeline_of(rank: int, host: str, start_ns: int, spans: list[Span],
                epoch_us: int = 0) -> RankTimeline:
    return RankTimeline(Path(f"{rank}"), rank, 4, host, f"boot of {host}", 7, start_ns, epoch_us,
                        spans)


@st.composite
def jobs(draw):
    """Ranks on up to three hosts, by how much the steady clock of each host is ahead, in us, and
    buckets that no rank ends before all have begun."""
    hosts = draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    ahead = [0, *draw(st.lists(st.integers(-10**9, 10**9), min_size=2, max_size=2))]
    spans = [[] for _ in hosts]
    now = 10_000
    for iteration in range(draw(st.integers(1, 6))):
        begins = [now + draw(st.integers(0, 3000)) for _ in hosts]
        for rank, begin in enumerate(begins):
            end = max(begins) + draw(st.integers(1, 500))
            spans[rank].append((begin, end, bucket_name(0, iteration)))
        now = max(begins) + 1000
    return hosts, ahead, spans


@given(jobs())
@settings(max_examples=200, deadline=None)
def test_clocks_of_hosts_are_aligned_within_what_is_said(job):
    hosts, ahead, spans = job
    starts = [1000 * (rank + 1) for rank in range(len(hosts))]  # us, of each rank's timeline
    timelines = [timeline_of(rank, f"host {host}", 1000 * (starts[rank] + ahead[host]), [
        Span("buckets", name, begin - starts[rank], end - starts[rank])
        for begin, end, name in spans[rank]]) for rank, host in enumerate(hosts)]
    alignment = align(timelines)
    first = ahead[hosts[0]]
    for rank, host in enumerate(hosts):
        error = alignment.error_us.get(f"host {host}", 0.0)
        assert abs(alignment.starts[rank] - first - starts[rank]) <= error + 1e-3
    assert set(alignment.error_us) == {f"host {host}" for host in hosts} - {f"host {hosts[0]}"}
    # No bucket ends on a rank before it has begun on all, by more than the error.
    for iteration in range(len(spans[0])):
        begun = max(start + timeline.spans[iteration].begin
                    for start, timeline in zip(alignment.starts, timelines))
        for start, timeline in zip(alignment.starts, timelines):
            assert start + timeline.spans[iteration].end >= begun - 1e-3 - 2 * max(
                alignment.error_us.values(), default=0.0)


def test_hosts_that_did_nothing_together_have_the_time_of_day():
    alignment = align([timeline_of(0, "a", 5_000_000, [], 1_000_000),
                       timeline_of(1, "b", 9_000_000, [], 1_000_250)])
    assert alignment.starts[1] - alignment.starts[0] == 250
    assert alignment.error_us == {"b": None}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20))))
def test_nothing_overlaps_in_a_lane(spans):
    placed = lanes([Span("buckets", "", begin, begin + length) for begin, length in spans])
    assert len(placed) == len(spans)
    for one, lane in placed:
        for other, same in placed:
            if other is not one and lane == same:
                assert one.end <= other.begin or other.end <= one.begin
    at_once = max((sum(other.begin <= one.begin < other.end for other, _ in placed)
                   for one, _ in placed), default=0)
    assert len({lane for _, lane in placed}) == at_once


def raw(rank: int, start_ns: int = 10**9, shift: int = 0) -> str:
    """A timeline as a rank writes it: a bucket, an operation of two tensors, a wait for input."""
    facts = {"start_time_since_epoch_in_micros": 77, "rank": rank, "size": 2, "host": "node",
             "boot": "b", "pid": 5, "monotonic_ns": start_ns}
    tensors = ["grad/a", "grad/b", "buckets", "input", "negotiation", "planned"]
    events = [{"name": "process_name", "ph": "M", "pid": 0, "args": facts}]
    for pid, name in enumerate(tensors, 1):
        events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})
    for pid in (1, 2):
        events.append({"ph": "B", "name": "ALLREDUCE", "ts": 100 + pid, "pid": pid})
        events.append({"ph": "B", "name": "MPI_ALLREDUCE", "ts": 103 + pid, "pid": pid})
    for pid in (1, 2):
        events.append({"ph": "E", "ts": 150 + pid, "pid": pid})
        events.append({"ph": "E", "ts": 151 + pid, "pid": pid})
    events += [
        {"ph": "B", "name": "ALLREDUCE", "ts": 200 + shift, "pid": 6},
        {"ph": "B", "name": "PLANNED_ALLREDUCE, iteration 4, bucket 0", "ts": 200, "pid": 6},
        {"ph": "E", "ts": 290, "pid": 6}, {"ph": "E", "ts": 290, "pid": 6},
        {"ph": "X", "name": bucket_name(0, 4), "ts": 200 + shift, "dur": 90 - shift, "pid": 3},
        {"ph": "X", "name": "waits for a batch", "ts": 10, "dur": 40, "pid": 4},
        {"ph": "X", "name": "waits for other ranks", "ts": 60, "dur": 20, "pid": 5},
        {"ph": "i", "name": "CYCLE_START", "ts": 55, "s": "g"}]
    return "[\n" + ",".join(map(json.dumps, events)) + "]"


@pytest.fixture
def files(tmp_path) -> Path:
    (tmp_path / "t.json").write_text(raw(0))
    (tmp_path / "t.json.rank-1").write_text(raw(1, shift=30))
    return tmp_path / "t.json"


def events_of(path: Path, *options: object) -> list[dict]:
    output = path.with_name("trace.json")
    assert cli.main(["trace", str(path), "--output", str(output), *map(str, options)]) == 0
    return json.loads(output.read_text())["traceEvents"]


def test_what_a_rank_did_is_in_its_threads(files):
    events = events_of(files)
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
             if event["name"] in ("thread_name", "process_name")}
    assert names[0, 0] == "rank 0 on node" and names[1, 0] == "rank 1 on node"
    spans = {(event["pid"], names[event["pid"], event["tid"]], event["name"]):
             (event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    for rank in range(2):
        assert spans[rank, "input", "waits for a batch"] == (0, 40)
        assert spans[rank, "negotiation", "waits for other ranks"] == (50, 20)
        assert spans[rank, "operations", "ALLREDUCE of 2 tensors"] == (91, 52)
        assert spans[rank, "operations", "MPI_ALLREDUCE"] == (94, 47)
    assert spans[0, "buckets", "bucket 0"] == (190, 90)
    assert spans[0, "buckets", "waits for rank 1"] == (190, 30)
    assert spans[0, "buckets", "reduces"] == (220, 60)
    assert spans[1, "buckets", "bucket 0"] == (220, 60)
    assert (1, "buckets", "waits for rank 0") not in spans
    # The planned tensor is its bucket, and nothing else.
    assert len(spans) == 2 * 4 + 3 + 2
    (cycle, _) = [event for event in events if event["ph"] == "i"]
    assert cycle["ts"] == 45


def test_a_span_comes_before_those_within_it(files):
    spans = [event for event in events_of(files) if event["ph"] == "X"]
    assert spans == sorted(spans, key=lambda event: (event["ts"], -event["dur"]))


def test_a_timeline_may_end_anywhere(tmp_path):
    text, counts = raw(0), []
    for end in range(text.index("}}") + 2, len(text)):
        (tmp_path / "cut").write_text(text[:end])
        timeline = rank_timeline.read(tmp_path / "cut")
        counts.append(len(timeline.spans))
        assert timeline.is_cut
    (tmp_path / "cut").write_text(text)
    whole = rank_timeline.read(tmp_path / "cut")
    assert not whole.is_cut and counts == sorted(counts)
    assert counts[0] == 0 and counts[-1] == len(whole.spans) == 6


def test_a_timeline_of_upstreams_kind_is_refused(tmp_path, capsys):
    text = raw(0).replace('"monotonic_ns"', '"other"')
    (tmp_path / "t.json").write_text(text)
    assert cli.main(["trace", str(tmp_path / "t.json")]) == 2
    assert "HOROVOD_OPT_TIMELINE_RANKS=1" in capsys.readouterr().err
    assert cli.main(["trace", str(tmp_path / "none.json")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_a_rank_that_is_missing_is_named(files, capsys):
    Path(f"{files}.rank-1").unlink()
    events_of(files)
    assert "no timeline of rank 1" in capsys.readouterr().err


def test_names_of_buckets_are_read_back():
    bucket = bucket_of(bucket_name(12, 345))
    assert bucket.label == "bucket 12"
    assert bucket.arguments == {"iteration": 345, "tensors": 3, "bytes": 96, "plan": "0a1b",
                                "process set": 0}
    assert bucket_of("waits") is None


def test_counters_over_time(files, make_lines):
    lines = make_lines(files.parent / "stats", rank=1, pid=5)
    counters = [event for event in events_of(files, "--stats", files.parent / "stats")
                if event["ph"] == "C"]
    assert {event["pid"] for event in counters} == {1}
    moved = [event["args"]["all"] for event in counters if event["name"] == "reduced, MB/s"]
    assert moved == [pytest.approx((lines[1]["data_bytes"] - lines[0]["data_bytes"]) / 0.5 / 1e6),
                     0.0]
    assert {"input, MB/s", "share of time", "cores used"} <= {event["name"] for event in counters}


@pytest.fixture
def make_lines():
    from horovod_opt.counters import TABLE

    def make(folder: Path, rank: int, pid: int) -> list[dict]:
        folder.mkdir()
        lines = [{"time": 1.0, "monotonic": 1.0 + 0.5 * number, "host": "node", "pid": pid,
                  "framework": "torch", **{row.field: (number + 1) * 1000 for row in TABLE},
                  "rank": rank} for number in range(2)]
        other = {**lines[0], "pid": pid + 1}  # of an earlier job
        (folder / f"rank-{rank}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in [other, *lines]))
        return lines

    return make


def test_nothing_half_is_left(tmp_path):
    trace = Trace()
    trace.counter(0, "c", 1.0, {"a": object()})
    with pytest.raises(TypeError):
        trace.write(tmp_path / "trace.json", {})
    assert not (tmp_path / "trace.json").exists()


def test_errors_name_the_file(tmp_path):
    with pytest.raises(TimelineError, match="cannot be read"):
        rank_timeline.read(tmp_path)
