"""hvd.DistributedOptimizer takes whatever today's torch.optim.Optimizer takes.

Each program of workers/operations/torch_optimizer.py runs on two ranks with it, and in one process
without.
"""

from __future__ import annotations

import pytest
from packaging.version import Version

torch = pytest.importorskip("torch")

# Which program uses each of an optimizer's public methods.
METHODS = {
    "OptimizerPostHook": "step_hooks",  # types of hooks
    "OptimizerPreHook": "step_hooks",
    "add_param_group": "add_param_group",
    "load_state_dict": "save_and_load",
    "profile_hook_step": "profile_hook_step",
    "register_load_state_dict_post_hook": "state_dict_hooks",
    "register_load_state_dict_pre_hook": "state_dict_hooks",
    "register_state_dict_post_hook": "state_dict_hooks",
    "register_state_dict_pre_hook": "state_dict_hooks",
    "register_step_post_hook": "step_hooks",
    "register_step_pre_hook": "step_hooks",
    "state_dict": "save_and_load",
    "step": "step_with_closure",
    "zero_grad": "zero_grad",
}
ERRORS = {
    "in_skip_synchronize": "RuntimeError: hvd.DistributedOptimizer: step(closure) was called in "
                           "skip_synchronize(), but the closure",
    "on_one_rank": "has to return the loss on all ranks or on none: none on rank 0, a number on "
                   "rank 1",
    "closure_replaced": "may call the closure that it finds, but not replace it",
    "other_parameters_on_each_rank": "they are in steps 2 on rank 0, 1 on rank 1",
    "same_name": "another parameter is called 'weight' already",
    "twice": "ValueError: hvd.DistributedOptimizer: the optimizer is one already",
    "two_at_once": "two hvd.DistributedOptimizer reduce the gradient of allreduce.noname",
    "shallow_copy": "TypeError: hvd.DistributedOptimizer: a shallow copy",
    "adasum_scaler": "ValueError: GradScaler with op=hvd.Adasum",
    "layouts_differ": "ValueError: hvd.DistributedOptimizer: parameter '1.weight' of shape "
                      "[3, 4, 2, 2] has strides [16, 4, 2, 1] on rank 0 and [16, 1, 8, 4] on rank "
                      "1",
    "layouts_of_copies_differ": "ValueError: hvd.DistributedOptimizer: parameter 'weight' of shape "
                                "[2, 2] has strides [2, 1] on rank 0 and [1, 2] on rank 1",
    "step_in_a_hook": "before the gradient of 0.bias, 0.weight was there. Call it after backward()",
}
# What hvd.broadcast_optimizer_state() says, on every rank.
REFUSED = {
    "class": "rank 1: the optimizer is SGD, that of the root Adam",
    "groups": "rank 1: the optimizer has groups of [3] parameters, that of the root of [2]",
    "shapes": "rank 1: parameter 0 of group 0 has shape [2, 2], that of the root [2, 3]",
    "pickle": "rank 0: the optimizer's state or param_groups cannot be pickled: TypeError: a lock",
}
MODES = ("off", "topo")


@pytest.fixture(params=MODES)
def reports(request, shared_job):
    reports = shared_job("torch_optimizer", HOROVOD_OPT_VERIFY="1").expect_success().of_ranks(2)
    assert all((report[request.param]["planned_iterations"] > 0) == (request.param == "topo")
               for report in reports)
    return [report[request.param] for report in reports]


def test_does_what_one_process_does_without_horovod(reports):
    for report in reports:
        assert {name: text for name, text in report["programs"].items() if text} == {}


def test_every_method_and_class_is_tried(reports):
    methods = {name for name in dir(torch.optim.Optimizer) if not name.startswith("_")}
    assert methods == set(METHODS)
    for report in reports:
        programs = report["programs"]
        assert set(METHODS.values()) <= set(programs)
        assert {"optim.Adam", "optim.LBFGS", "lr_scheduler.OneCycleLR"} <= set(programs)


@pytest.mark.parametrize("name", ERRORS)
def test_says_why_not(reports, name):
    if name == "same_name" and Version(torch.__version__) < Version("2.6"):
        pytest.skip("PyTorch's optimizers take named parameters since 2.6")
    for report in reports:
        assert ERRORS[name] in report["errors"][name]


def test_state_of_the_root(reports):
    """After a checkpoint that rank 0 alone has loaded, and after anything else."""
    for report in reports:
        assert report["state"]["wrong"] == {}
        assert report["state"]["refused"].keys() == REFUSED.keys()
        for name, text in report["state"]["refused"].items():
            assert text.startswith(f"hvd.broadcast_optimizer_state: {REFUSED[name]}")


def test_elastic_states(reports):
    for report in reports:
        assert report["elastic"]["wrong"] == {}
        assert "the state's attribute 'lines', a generator, can be neither" in (
            report["elastic"]["no copy"])


def test_adasum(reports):
    for report in reports:
        assert report["adasum"]["same"]
        assert "before step() would come too late" in report["adasum"]["hook"]
        assert report["adasum"]["left"] == dict.fromkeys(
            ("load_again", "replace_living", "replace_dead"), True)


def test_process_set_of_one_rank(reports):
    for report in reports:
        assert report["process set"]["same"]
