"""Plans as the native side reads them, and what it says about them."""

from __future__ import annotations

from graph_analysis import Bucket, Plan, Slot
from graph_analysis.bucket_sizes import Limits
from horovod_opt.native.plan_text import native_text, parse_status


def slot(number: int, name: str, after: tuple[int, ...] = (), **fields) -> Slot:
    values = dict(shape=(2, 3), dtype="float32", reduce_op=1, prescale=0.1, postscale=1.0,
                  device="", key=10 + number, nbytes=24)
    return Slot(id=number, name=name, after=after, **{**values, **fields})


def test_every_field_of_a_slot():
    # ID 1 is negotiated, so the numbers of the slots are not their IDs.
    plan = Plan("train step", (
        Bucket((slot(0, "a"), slot(2, "b")), ""),
        Bucket((slot(3, "c", (0, 1, 2), dtype="float16", nbytes=12),), ""),
    ))
    assert native_text(plan, Limits(1024, 4096, 256)).splitlines() == [
        f"plan\t{plan.hash}\t1024,4096,256\t0\ttrain step",
        "slot\t10\t24\t7\t1\t0.1\t1.0\t-\ta",
        "slot\t12\t24\t7\t1\t0.1\t1.0\t-\tb",
        "slot\t13\t12\t6\t1\t0.1\t1.0\t0,1\tc",
        "bucket\t0,1",
        "bucket\t2",
    ]


def test_the_process_set():
    text = native_text(Plan("step", (Bucket((slot(0, "a"),), ""),), process_set=2), Limits.same(1))
    assert text.splitlines()[0].endswith("\t1,1,1\t2\tstep")


def test_names_cannot_break_a_line():
    text = native_text(Plan("a\tb\nc", (Bucket((slot(0, "x\ty"),), ""),)), Limits.same(1))
    assert text.splitlines()[0].endswith("\ta b c")
    assert text.splitlines()[1].endswith("\tx y")


def test_status():
    text = ("plan\tabc\tactive\t7\t0\tstep\t\nbucket\t1\nbucket\t0,2\n"
            "slot\t0\tx\nslot\t7\ty\nslot\t6\tz\n"
            "plan\tdef\tnegotiated\t0\t3\tother\trank 1: why\nbucket\t0\nslot\t0\tw\n"
            "plan\tcall-1f\tactive\t9\t0\tallreduce 'v'\t\nbucket\t0\nslot\t1\tv\n")
    active, negotiated, call = parse_status(text)
    assert (active.name, active.hash) == ("step", "abc")
    assert (active.state, active.iterations) == ("active", 7)
    assert active.buckets == (("y",), ("x", "z"))
    assert active.arrived_last == {"y": 7, "z": 6}
    assert (negotiated.state, negotiated.reason) == ("negotiated", "rank 1: why")
    assert (active.process_set, negotiated.process_set) == (0, 3)
    assert [plan.is_call for plan in (active, negotiated, call)] == [False, False, True]


def test_no_plans():
    assert parse_status("") == []
