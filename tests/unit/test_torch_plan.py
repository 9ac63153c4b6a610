"""Plans from the gradients of a step, without PyTorch's native library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from horovod_opt import torch_plan

AVERAGE = 0


class Native:
    """Keeps what it is told."""

    def __init__(self):
        self.added: list[str] = []
        self.used: list[int] = []

    def add(self, text: str) -> None:
        self.added.append(text)

    def use_key(self, key: int) -> None:
        self.used.append(key)

    def is_first_rank(self) -> bool:
        return True


@pytest.fixture
def native():
    return Native()


def gradient(*shape: int, dtype: str = "float32"):
    return SimpleNamespace(shape=shape, dtype=f"torch.{dtype}")


def step(plan: torch_plan.GradientPlan, gradients: dict) -> None:
    for name, tensor in gradients.items():
        plan.before_allreduce(name, tensor, AVERAGE, 0.5, 2.0)
    plan.end_of_step()


def slots(text: str) -> list[list[str]]:
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith("slot")]


def test_the_first_step_is_recorded_and_later_ones_carry_keys(native):
    plan = torch_plan.GradientPlan(native, "test", ["a", "b"])
    gradients = {"b": gradient(3), "a": gradient(2, 2)}
    step(plan, gradients)
    assert len(native.added) == 1 and native.used == []
    keys = {slot[-1]: int(slot[0]) for slot in slots(native.added[0])}
    step(plan, gradients)
    assert native.used == [keys["allreduce.b"], keys["allreduce.a"]]
    assert len(native.added) == 1


def test_the_order_is_the_parameters_from_the_last_to_the_first(native):
    names = ["first", "second", "third"]
    for arrival in (names, names[::-1], ["second", "third", "first"]):
        plan = torch_plan.GradientPlan(native, "test", names)
        step(plan, {name: gradient(4) for name in arrival})
    orders = [[slot[-1] for slot in slots(text)] for text in native.added]
    assert orders == [["allreduce.third", "allreduce.second", "allreduce.first"]] * 3
    hashes = {text.split("\t")[1] for text in native.added}
    assert len(hashes) == 1


def test_two_optimizers_have_keys_of_their_own(native):
    for _ in range(2):
        step(torch_plan.GradientPlan(native, "test", ["a"]), {"a": gradient(4)})
    first, second = (slots(text)[0][0] for text in native.added)
    assert first != second


def test_what_is_sent_counts_not_the_parameter(native):
    step(torch_plan.GradientPlan(native, "test", ["a"]), {"a": gradient(5, dtype="float16")})
    (slot,) = slots(native.added[0])
    assert slot[1:6] == ["10", "6", "0", "0.5", "2.0"]  # bytes, dtype, operation, scaling


def test_buckets_hold_one_dtype_and_the_threshold(native, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "32")
    gradients = {name: gradient(4) for name in "abc"} | {"d": gradient(1, dtype="int64")}
    step(torch_plan.GradientPlan(native, "test", list(gradients)), gradients)
    buckets = [line for line in native.added[0].splitlines() if line.startswith("bucket")]
    assert buckets == ["bucket\t0", "bucket\t1,2", "bucket\t3"]


def test_a_dtype_that_cannot_be_planned_is_left_out(native):
    gradients = {"a": gradient(4), "b": gradient(4, dtype="bfloat16")}
    plan = torch_plan.GradientPlan(native, "test", list(gradients))
    step(plan, gradients)
    assert [slot[-1] for slot in slots(native.added[0])] == ["allreduce.a"]
    step(plan, gradients)
    assert len(native.used) == 1


def test_nothing_to_plan(native):
    plan = torch_plan.GradientPlan(native, "test", ["b"])
    plan.end_of_step()  # hvd.size() == 1: no hooks
    step(plan, {"b": gradient(4, dtype="bfloat16")})
    step(plan, {"b": gradient(4, dtype="bfloat16")})
    assert native.added == [] and native.used == []


def optimizer(process_set: int = 0, groups: object = None):
    weight, frozen = SimpleNamespace(requires_grad=True), SimpleNamespace(requires_grad=False)
    names = {id(weight): "weight", id(frozen): "frozen"}
    return SimpleNamespace(
        process_set=SimpleNamespace(process_set_id=process_set), _groups=groups,
        param_groups=[{"params": [weight, frozen]}],
        _parameter_names=SimpleNamespace(get=lambda parameter: names[id(parameter)]))


def test_which_optimizers_are_planned(native, monkeypatch):
    assert torch_plan.of(optimizer()) is None  # another mode
    monkeypatch.setattr(torch_plan, "planner", native)
    assert torch_plan.of(optimizer(process_set=1)) is None
    assert torch_plan.of(optimizer(groups=2)) is None
    plan = torch_plan.of(optimizer())
    step(plan, {"weight": gradient(1), "frozen": gradient(1)})
    assert [slot[-1] for slot in slots(native.added[0])] == ["allreduce.weight"]
