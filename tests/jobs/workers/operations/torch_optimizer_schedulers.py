"""Programs with what PyTorch has around an optimizer: schedulers, GradScaler, averaged models."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import torch
from torch.optim import lr_scheduler, swa_utils
from torch_optimizer_run import STEPS, Program, Run, draw


def scheduler_classes() -> dict[str, Callable]:
    how = {
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9 ** epoch},
        "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9},
        "StepLR": {"step_size": 2}, "MultiStepLR": {"milestones": [2, 4]},
        "ConstantLR": {}, "LinearLR": {}, "ExponentialLR": {"gamma": 0.9}, "PolynomialLR": {},
        "CosineAnnealingLR": {"T_max": 4}, "CosineAnnealingWarmRestarts": {"T_0": 2},
        "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2},
        "OneCycleLR": {"max_lr": 0.1, "total_steps": 10},
        "ReduceLROnPlateau": {"patience": 0, "threshold": 10.0},
    }
    makers = {name: lambda optimizer, name=name, how=how: getattr(lr_scheduler, name)(
        optimizer, **how) for name, how in how.items()}
    parts = lambda optimizer: [lr_scheduler.ConstantLR(optimizer),  # noqa: E731
                               lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]
    makers["SequentialLR"] = lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, parts(optimizer), milestones=[2])
    makers["ChainedScheduler"] = lambda optimizer: lr_scheduler.ChainedScheduler(parts(optimizer))
    makers["SWALR"] = lambda optimizer: swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3)
    classes = {name for name, cls in inspect.getmembers(lr_scheduler, inspect.isclass)
               if issubclass(cls, lr_scheduler.LRScheduler) and cls.__module__ ==
               lr_scheduler.__name__ and not name.startswith("_")} - {"LRScheduler"}
    assert classes <= set(makers), classes - set(makers)
    return makers


def each_scheduler(make: Callable) -> Program:
    def program(run: Run) -> object:
        optimizer = run.sgd()
        scheduler = make(optimizer)
        rates = []
        for step in range(STEPS):
            run.train(optimizer, 1, first=step)
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                scheduler.step(1.0)
            else:
                scheduler.step()
            rates.append([{name: value for name, value in group.items() if name != "params"}
                          for group in optimizer.param_groups])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that a step has not been seen
            scheduler.load_state_dict(scheduler.state_dict())
        return rates, run.weights()

    return program


def scheduler_before_wrapping(run: Run) -> object:
    sgd = torch.optim.SGD(run.net.parameters(), lr=0.1)
    scheduler = lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    optimizer = run.wrap(sgd)
    rates = []
    for step in range(STEPS):
        run.train(optimizer, 1, first=step)
        if step == 2:
            optimizer.load_state_dict(optimizer.state_dict())
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, run.weights()


def scaled(how: str, make: Callable = torch.optim.SGD, **options: object) -> Program:
    """In the second and third step the gradient of one rank is not finite: no rank steps."""

    def program(run: Run) -> object:
        optimizer = run.wrap(make(run.net.parameters(), lr=0.1, **options))
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        scales = []
        for step in range(6):
            optimizer.zero_grad()
            loss = run.loss(step)
            if step in (1, 2) and step - 1 in run.ranks:
                loss = loss * torch.inf
            scaler.scale(loss).backward()
            if how == "by hand" and run.distributed:
                optimizer.synchronize()
            if how != "plain":
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(run.net.parameters(), 0.05)
            if how == "by hand" and run.distributed:
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return scales, run.weights()

    return program


def scaler_off(run: Run) -> object:
    optimizer = run.sgd()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(run.loss(step)).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return run.weights()


def averaged_model(run: Run) -> object:
    run.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).double()
    for parameter in run.net.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    run.net[1].eval()  # its statistics are those of a batch
    optimizer = run.sgd()
    models = [swa_utils.AveragedModel(run.net), swa_utils.AveragedModel(
        run.net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)]
    rates = swa_utils.SWALR(optimizer, swa_lr=0.02)
    for step in range(STEPS):
        run.train(optimizer, 1, first=step)
        for model in models:
            model.update_parameters(run.net)
        rates.step()
    swa_utils.update_bn([draw(9, step) for step in range(3)], models[0])
    return [model.state_dict() for model in models]


PROGRAMS: dict[str, Program] = {
    **{f"lr_scheduler.{name}": each_scheduler(make)
       for name, make in scheduler_classes().items()},
    **{f"scaler, {how}": scaled(how) for how in ("plain", "unscaled", "by hand")},
    "scaler, fused": scaled("plain", torch.optim.Adam, fused=True),
    **{program.__name__: program for program in (
        scheduler_before_wrapping, scaler_off, averaged_model)},
}
