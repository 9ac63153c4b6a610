"""Names and classes of threads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from horovod_lab.profile.classes import (
    BACKGROUND,
    HELPERS,
    INPUT,
    MAIN,
    REST,
    SCHEDULING,
    Classes,
    ClassesError,
    read_classes,
)
from horovod_lab.profile.names import names_of_rank, wait_kind


@dataclass(frozen=True)
class Thread:
    tid: int
    name: str = "python"
    waits: dict = field(default_factory=dict)
    wakeups: int = 0
    cpu: float = 0.0


def classes_of(*threads: Thread) -> dict[int, str]:
    table = Classes()
    return {tid: table.of(name) for tid, name in names_of_rank(threads, threads[0].tid).items()}


def test_tensorflow_with_the_patched_horovod():
    """The intra-op pool, whose name the kernel refuses, comes before tf_Compute, tf.data after."""
    assert classes_of(
        Thread(10, cpu=50.0), Thread(11, "hvd-background", {"sleep": 9}), Thread(12, "hvd-planned"),
        Thread(13, waits={"poll": 3}), Thread(14, waits={"futex": 9, "sleep": 1}),
        Thread(15, "tf_Compute"), Thread(16, "tf_graph_runner"), Thread(17, waits={"futex": 2}),
        Thread(18, "llvm-worker-0"),
    ) == {10: MAIN, 11: BACKGROUND, 12: BACKGROUND, 13: HELPERS, 14: SCHEDULING, 15: SCHEDULING,
          16: SCHEDULING, 17: INPUT, 18: REST}


def test_upstreams_background_thread_is_the_one_that_sleeps_and_wakes_up_most_often():
    """Not one that waits for work and runs more, nor one that sleeps seldom for long."""
    busy = Thread(11, waits={"futex": 9}, wakeups=9000, cpu=90.0)
    seldom = Thread(12, waits={"sleep": 99}, wakeups=99)
    background = Thread(13, waits={"sleep": 3, "futex": 20}, wakeups=800, cpu=2.0)
    helper = Thread(14, waits={"poll": 99}, wakeups=2)
    classes = classes_of(Thread(10), busy, seldom, background, helper)
    assert classes == {10: MAIN, 11: SCHEDULING, 12: REST, 13: BACKGROUND, 14: HELPERS}


def test_upstreams_background_thread_that_only_spins():
    spinning, short = Thread(12, cpu=20.0, wakeups=5), Thread(13, cpu=0.1, wakeups=50)
    classes = classes_of(Thread(10), Thread(11, waits={"futex": 1}, cpu=99.0), spinning, short)
    assert classes[12] == BACKGROUND
    assert list(classes.values()).count(BACKGROUND) == 1


def test_no_background_thread_before_one_has_shown_itself():
    assert BACKGROUND not in classes_of(Thread(10), Thread(11), Thread(12, waits={"futex": 3}),
                                        Thread(13, waits={"poll": 3}, cpu=9.0)).values()


def test_a_thread_that_has_a_name_is_not_taken_for_upstreams():
    timer = Thread(11, "my-timer", {"sleep": 9}, wakeups=1000, cpu=5.0)
    assert classes_of(Thread(10), timer)[11] == REST


@pytest.mark.parametrize("function, kind", [
    ("hrtimer_nanosleep", "sleep"), ("futex_do_wait", "futex"), ("do_epoll_wait", "poll"),
    ("poll_schedule_timeout.constprop.0", "poll"), ("__skb_wait_for_more_packets", "other"),
])
def test_waits_by_the_kernels_functions(function, kind):
    assert wait_kind(function) == kind


@pytest.mark.parametrize("name, expected", [
    ("@child pt_data_worker", INPUT), ("@child python3.11", INPUT), ("@child gcc", REST),
    ("pt_data_pin", INPUT), ("pt_autograd_0", SCHEDULING), ("NCCL Progress 0", HELPERS),
    ("(odd) [name] )", REST), ("", REST),
])
def test_table(name, expected):
    assert Classes().of(name) == expected


def test_the_users_rows_come_first_and_may_have_classes_of_their_own(tmp_path):
    file = tmp_path / "classes.json"
    file.write_text(json.dumps({"tf_Comp*": "my class", "hvd-planned": REST}))
    table = read_classes(file)
    assert [table.of(name) for name in ("tf_Compute", "tf_other", "hvd-planned", "hvd-background")
            ] == ["my class", SCHEDULING, REST, BACKGROUND]


@pytest.mark.parametrize("content, problem", [
    (None, "cannot be read: No such file"), ("{", "is not JSON"), ("[]", "wanted an object"),
    ('{"a": 1}', "wanted an object"),
])
def test_a_table_that_cannot_be_used(tmp_path, content, problem):
    file = tmp_path / "classes.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ClassesError, match=problem) as caught:
        read_classes(file)
    assert str(file) in str(caught.value)
