"""Plans of the gradients of a step, without Horovod's native library."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from horovod_opt.planning import pytorch_gradients


class Native:
    """Keeps what it is told."""

    def __init__(self):
        self.added: list[str] = []
        self.removed: list[str] = []
        self.left_out: list[tuple[int, str]] = []
        self.on_gpus = True

    def add(self, text: str) -> None:
        self.added.append(text)

    def remove(self, text: str) -> None:
        self.removed.append(text)

    def leave_out(self, key: int, reason: str) -> None:
        self.left_out.append((key, reason))

    def reduces_on_gpus(self) -> bool:
        return self.on_gpus

    def is_first_rank(self) -> bool:
        return True


@pytest.fixture
def native():
    return Native()


def record(*shape: int, dtype: str = "float32") -> dict:
    return {"shape": list(shape), "dtype": dtype, "reduce_op": 0, "prescale": 0.5,
            "postscale": 2.0}


def make_plan(native: Native, **gradients: dict) -> pytorch_gradients.GradientPlan:
    return pytorch_gradients.GradientPlan(native, "test", list(gradients.items()))


def slots(text: str) -> list[list[str]]:
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith("slot")]


def test_every_allreduce_carries_its_key(native):
    plan = make_plan(native, b=record(3), a=record(2, 2))
    (text,) = native.added
    assert [slot[-1] for slot in slots(text)] == ["allreduce.b", "allreduce.a"]
    assert slots(text)[0][1:6] == ["12", "7", "0", "0.5", "2.0"]  # bytes, dtype, op, scaling
    keys = {slot[-1]: int(slot[0]) for slot in slots(text)}
    used = [plan.key_of(name)[0] for name in ("a", "b", "another")]
    assert used == [keys["allreduce.a"], keys["allreduce.b"], 0]
    assert pytorch_gradients.key_of(plan, "a") == plan.key_of("a")
    assert pytorch_gradients.key_of(None, "a") == pytorch_gradients.NO_KEY  # in another mode


def test_steps_have_numbers_of_their_own_in_all_plans(native):
    plans = [make_plan(native, a=record(4), b=record(3)) for _ in range(2)]
    def step_of(plan: pytorch_gradients.GradientPlan, name: str) -> int:
        return plan.key_of(name)[1]

    first, again, other, other_again = (step_of(plan, name) for plan in plans for name in "ab")
    plans[1].end_step()
    still_first, next_of_other = (step_of(plan, "a") for plan in plans)
    assert first == again == still_first != 0
    assert other == other_again != 0
    assert len({first, other, next_of_other, 0}) == 4


def test_a_sparse_gradient_is_left_out_in_every_step(native):
    plan = make_plan(native, b=record(3), a=record(2, 2))
    keys = {slot[-1]: int(slot[0]) for slot in slots(native.added[0])}
    for name in ("a", "another", "a"):
        plan.before_allgathers(name)
    assert native.left_out == 2 * [(keys["allreduce.a"], "its gradient is sparse")]


def test_the_plan_goes_with_the_optimizer(native):
    plan = make_plan(native, a=record(4))
    assert native.removed == []
    del plan
    gc.collect()
    assert native.removed == native.added != []


def test_a_script_that_is_run_for_its_plans_stops_at_its_first_gradient(native, monkeypatch):
    def stop():
        raise InterruptedError

    monkeypatch.setattr(pytorch_gradients.plan_folder, "stop", stop)
    monkeypatch.setenv("HOROVOD_OPT_PLANS_STOP", "1")
    assert make_plan(native, a=record(3)).key_of("a")[0] != 0  # without a folder nothing is asked
    monkeypatch.setattr(pytorch_gradients.plan_folder, "stops_before_step", lambda: True)
    plan = make_plan(native, b=record(4, dtype="int16"), a=record(3))
    assert plan.key_of("b") == pytorch_gradients.NO_KEY
    for before in (plan.key_of, plan.before_allgathers):
        with pytest.raises(InterruptedError):
            before("a")
    assert native.left_out == []


def test_two_optimizers_have_one_plan_and_keys_of_their_own(native):
    for _ in range(2):
        make_plan(native, a=record(4))
    first, second = native.added
    assert slots(first)[0][0] != slots(second)[0][0]
    assert first.split("\t")[1] == second.split("\t")[1]


def test_buckets_hold_one_dtype_and_the_threshold(native, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "32")
    make_plan(native, d=record(1, dtype="int64"), c=record(4), b=record(4), a=record(4))
    buckets = [line for line in native.added[0].splitlines() if line.startswith("bucket")]
    assert buckets == ["bucket\t0", "bucket\t1,2", "bucket\t3"]


def test_bfloat16_has_buckets_of_its_own(native):
    make_plan(native, d=record(4, dtype="bfloat16"), c=record(4, dtype="bfloat16"),
              b=record(4, dtype="float16"), a=record(4))
    (text,) = native.added
    assert slots(text)[0][1:3] == ["8", "10"]
    buckets = [line for line in text.splitlines() if line.startswith("bucket")]
    assert sorted(buckets) == ["bucket\t0,1", "bucket\t2", "bucket\t3"]


def test_a_dtype_that_cannot_be_planned_is_left_out(native):
    plan = make_plan(native, b=record(4, dtype="int16"), a=record(4))
    assert [slot[-1] for slot in slots(native.added[0])] == ["allreduce.a"]
    assert plan.key_of("b") == pytorch_gradients.NO_KEY
    make_plan(native, b=record(4, dtype="int16"))
    assert len(native.added) == 1


def optimizer(process_set: int | None = 0, op: int = 0):
    torch = pytest.importorskip("torch")
    weight, bias = torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(3))
    frozen = torch.nn.Parameter(torch.zeros(7), requires_grad=False)
    return SimpleNamespace(
        process_set=SimpleNamespace(process_set_id=process_set), op=op,
        gradient_predivide_factor=4.0, param_groups=[{"params": [weight, frozen, bias]}],
        _parameter_names={weight: "weight", frozen: "frozen", bias: "bias"},
        _compression=SimpleNamespace(compress=lambda tensor: (tensor.half(), None)))


def test_what_an_optimizer_sends(native, monkeypatch):
    monkeypatch.setattr(pytorch_gradients, "planner", native)
    pytorch_gradients.of(optimizer())
    pytorch_gradients.of(optimizer(op=1))
    average, summed = map(slots, native.added)
    assert [slot[-1] for slot in average] == ["allreduce.bias", "allreduce.weight"]
    assert [slot[1:6] for slot in average] == [["6", "6", "0", "0.25", "4.0"],
                                               ["12", "6", "0", "0.25", "4.0"]]
    assert [slot[3:6] for slot in summed] == [["1", "1.0", "1.0"]] * 2


def test_which_optimizers_are_planned(native, monkeypatch):
    assert pytorch_gradients.of(optimizer()) is None  # another mode
    monkeypatch.setattr(pytorch_gradients, "planner", native)
    assert pytorch_gradients.of(optimizer(process_set=None)) is None  # not added yet
    assert native.added == []
    assert pytorch_gradients.of(optimizer(process_set=1)) is not None
    assert native.added[0].split("\t")[3] == "1"


def test_parameters_that_come_later_have_a_plan_of_their_own(native, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(pytorch_gradients, "planner", native)
    distributed = optimizer()
    plan = pytorch_gradients.of(distributed)
    late = torch.nn.Parameter(torch.zeros(5))
    distributed._parameter_names[late] = "late"
    plan.extend(distributed, [late])
    first, second = native.added
    assert [slot[-1] for slot in slots(second)] == ["allreduce.late"]
    assert slots(second)[0][1:6] == ["10", "6", "0", "0.25", "4.0"]
    used = [plan.key_of(name)[0] for name in ("weight", "late")]
    assert used == [int(slots(first)[1][0]), int(slots(second)[0][0])]


def test_the_memory_order_is_part_of_the_plan(native, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(pytorch_gradients, "planner", native)
    plans = {}
    for order in ((0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)):
        memory = torch.zeros([(2, 2, 3)[dim] for dim in order])
        weight = torch.nn.Parameter(memory.permute([order.index(dim) for dim in range(3)]))
        assert weight.shape == (2, 2, 3)
        distributed = optimizer()
        distributed.param_groups = [{"params": [weight]}]
        distributed._parameter_names = {weight: "weight"}
        pytorch_gradients.of(distributed)
        pytorch_gradients.of(distributed)
        first, second = native.added[-2:]
        assert first.split("\t")[1] == second.split("\t")[1]
        plans[first.split("\t")[1]] = slots(first)[0]
    assert len(plans) == 4
    assert [slot[-1] for slot in plans.values()] == [
        "allreduce.weight", "allreduce.weight (order 0,2,1)", "allreduce.weight (order 2,1,0)",
        "allreduce.weight (order 1,2,0)"]
    assert {slot[1] for slot in plans.values()} == {"24"}  # bytes, as float16


# Buckets by device. PyTorch's meta tensors, which have no memory, stand for a GPU's.


MIB = 1 << 20


def sizes(text: str) -> list[list[int]]:
    """MiB of the tensors of each bucket."""
    mib = [int(slot[1]) // MIB for slot in slots(text)]
    return [[mib[int(number)] for number in line.split("\t")[1].split(",")]
            for line in text.splitlines() if line.startswith("bucket")]


def plan_on(native: Native, monkeypatch, *tensors: tuple[str, int], kind: str = "meta") -> str:
    """The text of the plan of parameters on these devices with so many MiB as float16, first one
    first in the plan. `kind`: of a GPU."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(pytorch_gradients, "planner", native)
    monkeypatch.setattr(pytorch_gradients, "ON_GPU", kind)
    parameters = [torch.nn.Parameter(torch.empty(mib * MIB // 2, device=device))
                  for device, mib in tensors]
    distributed = optimizer()
    distributed.param_groups = [{"params": parameters[::-1]}]
    distributed._parameter_names = {it: f"p{number}" for number, it in enumerate(parameters)}
    pytorch_gradients.of(distributed)
    return native.added[-1]


def test_buckets_on_a_gpu_are_larger_and_the_first_is_smaller(native, monkeypatch):
    text = plan_on(native, monkeypatch, *[("meta", 1)] * 36)
    assert [len(bucket) for bucket in sizes(text)] == [1, 32, 3]
    assert text.split("\t")[2] == f"{4 * MIB},{32 * MIB},{MIB}"
    text = plan_on(native, monkeypatch, *[("cpu", 1)] * 6)
    assert [len(bucket) for bucket in sizes(text)] == [4, 2]
    native.on_gpus = False  # Horovod has no operations for GPUs: main memory, all of it
    text = plan_on(native, monkeypatch, *[("meta", 1)] * 6)
    assert [len(bucket) for bucket in sizes(text)] == [4, 2]


def test_the_setting_is_the_size_of_a_bucket_wherever_it_is(native, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", str(2 * MIB))
    for device in ("meta", "cpu"):
        text = plan_on(native, monkeypatch, *[(device, 1)] * 5)
        assert sizes(text) == [[1, 1], [1, 1], [1]]
        assert text.split("\t")[2] == f"{2 * MIB},{2 * MIB},{2 * MIB}"


def test_tensors_on_other_devices_are_in_other_buckets(native, monkeypatch):
    text = plan_on(native, monkeypatch, ("meta", 1), ("cpu", 1), ("cpu", 1), ("meta", 5),
                   ("meta", 6))
    assert sizes(text) == [[1], [1, 1], [5, 6]]


def test_ranks_whose_tensors_are_on_other_kinds_of_devices_have_other_plans(native, monkeypatch):
    def hash_of(*tensors: tuple[str, int], kind: str = "meta") -> str:
        return plan_on(native, monkeypatch, *tensors, kind=kind).split("\t")[1]

    alone = hash_of(("meta", 1))
    assert alone == hash_of(("meta", 1)) != hash_of(("cpu", 1)) == hash_of(("meta", 1), kind="-")


def test_gpus_of_a_rank_are_told_apart_and_their_numbers_are_not_in_the_plan():
    torch = pytest.importorskip("torch")
    for numbers in ((0, 1, 0), (3, 2, 3)):
        gpus: list = []
        names = [pytorch_gradients._device(Native(), torch.device("cuda", number), gpus)
                 for number in numbers]
        assert names == ["GPU 0", "GPU 1", "GPU 0"]
    assert pytorch_gradients._device(Native(), torch.device("cpu"), []) == ""
