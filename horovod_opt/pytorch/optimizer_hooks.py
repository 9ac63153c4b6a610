"""What PyTorch's optimizers do today and upstream's hvd.DistributedOptimizer does not.

Its class is made when an optimizer is wrapped: the methods of upstream's class, then those of
Reducing or ReducingAdasum, then the class of that optimizer. What is here is therefore called as
super() by upstream's methods.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from horovod_opt.pytorch import left_steps
from horovod_opt.pytorch.memory_order import GradientOrders

_reducers: WeakIdKeyDictionary = WeakIdKeyDictionary()  # of a parameter: references to those in use


class Reducing:
    """Stands between upstream's methods and the optimizer that is wrapped."""

    _reduces = False  # whether there is anybody to reduce gradients with
    _steps = 0  # with a closure

    def __init__(self, optimizer: torch.optim.Optimizer):
        """Becomes `optimizer`: its defaults, state and hooks, and attributes of its class."""
        vars(self).update(vars(optimizer))
        vars(self).pop("step", None)  # a scheduler's, which calls the step of `optimizer`
        self.param_groups = list(optimizer.param_groups)
        self._orders = GradientOrders()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        number, group = len(self.param_groups) - 1, self.param_groups[-1]
        new = group["params"]
        names = group.get("param_names") or [f"allreduce.noname.{number}.{i}"
                                             for i in range(len(new))]
        owners = {name: parameter for parameter, name in self._parameter_names.items()}
        for name, parameter in zip(names, new):
            if owners.get(name, parameter) is not parameter:
                self.param_groups.pop()
                raise ValueError(f"add_param_group: another parameter is called {name!r} already; "
                                 "its gradient is reduced under that name")
        for name, parameter in zip(names, new):
            self._parameter_names.setdefault(parameter, name)
            self._allreduce_delay[parameter] = self.backward_passes_per_step
        self._watch(new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Into the groups that there are: a scheduler of the optimizer that was wrapped has them,
        and PyTorch makes new ones."""
        groups = self.param_groups
        super().load_state_dict(state_dict)
        for group, source in zip(groups, self.param_groups):
            group.clear()
            group.update(source)
        self.param_groups = groups
        if self._groups is not None:  # gradients of a step that an exception has ended do not count
            self._group_counts = dict.fromkeys(self._group_counts, 0)
        self._end_step()

    def _end_step(self) -> None:
        if self._opt_plan:
            self._opt_plan.end_step()

    def _abandon_step(self, error: RuntimeError) -> None:
        """After a reduction that has failed: the next backward pass begins another step."""
        from horovod.torch import mpi_ops

        if not isinstance(error, mpi_ops.HorovodInternalError):
            return
        for handle, _ in list(self._handles.values()):
            with contextlib.suppress(Exception):  # the first error is the one that is raised
                if handle is not None:
                    handle() if callable(handle) else mpi_ops.synchronize(handle)
            mpi_ops._handle_map.pop(handle, None)
        self._handles.clear()
        self._group_counts = dict.fromkeys(self._group_counts, 0)
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)
        self._end_step()

    def _watch(self, parameters: Iterable[torch.Tensor]) -> None:
        """From now on, reduces the gradients of those that require one."""
        new = [parameter for parameter in parameters
               if parameter.requires_grad and parameter not in self._requires_update]
        if not self._reduces or not new:
            return
        for parameter in new:
            if self._groups is not None:
                self._p_to_group[parameter] = (parameter,)
                self._group_counts[(parameter,)] = 0
            self._requires_update.add(parameter)
            self._register_gradient_hook(parameter)
        if self._opt_plan:
            self._opt_plan.extend(self, new)

    def _register_gradient_hook(self, parameter: torch.Tensor) -> None:
        """The first one of its hooks, as the script's may call step()."""
        handle = parameter.register_post_accumulate_grad_hook(self._gradient_hook(parameter))
        hooks = parameter._post_accumulate_grad_hooks
        # Not move_to_end(): PyTorch goes through the dict, whose order that leaves as it was.
        others = {key: hooks.pop(key) for key in list(hooks) if key != handle.id}
        hooks.update(others)
        self._orders.add([parameter])

    def _gradient_hook(self, parameter: torch.Tensor) -> Callable:
        """Runs when a gradient of `parameter` is there; does nothing once this optimizer is gone,
        as a script may train a model with one optimizer after the other."""
        reducers = _reducers.setdefault(parameter, set())
        reference = weakref.ref(self, reducers.discard)
        reducers.add(reference)

        def hook(*_: Any) -> None:
            optimizer = reference()
            if optimizer is None:
                return
            if len(reducers) > 1:
                name = optimizer._parameter_names[parameter]
                raise RuntimeError(f"two hvd.DistributedOptimizer reduce the gradient of {name}:"
                                   " delete the one that is not needed any more")
            try:
                optimizer._make_hook(parameter)()
            except RuntimeError as error:
                optimizer._abandon_step(error)
                raise

        return hook

    def _follow_requires_grad(self) -> list[torch.Tensor]:
        """Parameters may have been frozen or unfrozen since the last step.

        Returns the frozen ones without a gradient. They take part, as ranks and plans expect them,
        and have none afterwards: with zeros, momentum and weight decay would still change them.
        """
        self._watch(parameter for group in self.param_groups for parameter in group["params"])
        self._agree_on_orders()
        return [parameter for parameter in self._requires_update
                if not parameter.requires_grad and parameter.grad is None]

    def _agree_on_orders(self) -> None:
        """Raises ValueError on every rank if parameters have other memory orders on others."""
        if self._reduces:
            self._orders.agree(self._parameter_names, self.process_set)

    def _refuse_in_backward(self, missing: set[torch.Tensor]) -> None:
        """Their gradients are not there when a hook of another parameter calls step()."""
        if missing and torch._C._current_graph_task_id() != -1:
            names = sorted(map(self._parameter_names.__getitem__, missing))
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise RuntimeError(
                "hvd.DistributedOptimizer: step() or synchronize() was called during the backward "
                f"pass, before the gradient of {', '.join(names[:3])}{more} was there. Call it "
                "after backward(), or make an hvd.DistributedOptimizer for each parameter, with "
                "named_parameters=[(name, parameter)]: a hook of "
                "register_post_accumulate_grad_hook() may call step() of that")

    def _step_with(self, closure: Callable[[], Any], **options: Any) -> Any:
        """A step that computes its gradients itself, once or several times (LBFGS).

        Each evaluation has the gradients of all ranks, and a loss that is the same on all of them:
        the line search must go the same way everywhere.
        """
        if not self._reduces:
            return super().step(closure, **options)

        def evaluate() -> Any:
            self._synchronized = False
            return self._reduce_evaluation(closure())

        self._steps += 1
        self._reduce_evaluation(None)  # what was computed before the step
        result = super().step(evaluate, **options)
        if self._handles:
            raise RuntimeError(
                "hvd.DistributedOptimizer: the step has evaluated another closure than the one "
                "that step() was given, so its gradients have not been reduced. A hook registered "
                "by register_step_pre_hook() may call the closure that it finds, but not replace "
                "it.")
        self._synchronized = False
        return result

    def _reduce_evaluation(self, loss: Any) -> Any:
        """Reduces the gradients if any rank has computed some; the loss as the gradients are."""
        from horovod.torch.mpi_ops import Sum, allgather

        scalar = isinstance(loss, Real) or torch.is_tensor(loss) and loss.numel() == 1
        number = loss.detach() if torch.is_tensor(loss) else loss
        row = [float(number) if scalar else 0.0, scalar, bool(self._handles), self._steps]
        rows = allgather(torch.tensor([row], dtype=torch.float64), process_set=self.process_set,
                         name="DistributedOptimizer.step.closure")
        losses, scalars, flags, steps = rows.T.tolist()
        if len(set(steps)) > 1:
            raise RuntimeError(
                "hvd.DistributedOptimizer: ranks have evaluated the closure a different number of "
                f"times: they are in steps {_by_rank(self, steps)}. Were parameters and state of "
                "the optimizer equal on all ranks before the first step? "
                "hvd.broadcast_parameters() makes them equal.")
        if len(set(scalars)) > 1:
            kinds = ["a number" if flag else "none" for flag in scalars]
            raise RuntimeError("hvd.DistributedOptimizer: the closure has to return the loss on "
                               f"all ranks or on none: {_by_rank(self, kinds)}")
        if any(flags):
            if not self._should_synchronize:
                raise RuntimeError(
                    "hvd.DistributedOptimizer: step(closure) was called in skip_synchronize(), but "
                    "the closure computes gradients and does not call synchronize() after that")
            self.synchronize()
        if not scalar:
            return loss
        total = sum(losses) if self.op == Sum else sum(losses) / len(losses)
        return torch.full_like(loss.detach(), total) if torch.is_tensor(loss) else total

    def __copy__(self) -> Any:
        raise TypeError("hvd.DistributedOptimizer: a shallow copy would reduce the gradients of "
                        "the same parameters a second time; copy.deepcopy((model, optimizer)) "
                        "copies both")

    def __reduce_ex__(self, protocol: Any) -> tuple:
        """Pickles the optimizer that was wrapped, which is wrapped again when it is loaded.

        Horovod must be running there. Hooks are not pickled; PyTorch does not, either.
        """
        from horovod.torch.optimizer import DistributedOptimizer, global_process_set

        inner = _class_of(self).__new__(_class_of(self))
        vars(inner).update((name, value) for name, value in vars(self).items()
                           if name not in self._own_names and name != "step")
        arguments = {**self._arguments, "named_parameters":
                     [(name, parameter) for parameter, name in self._parameter_names.items()],
                     "backward_passes_per_step": self.backward_passes_per_step}
        if arguments["process_set"] is global_process_set:
            del arguments["process_set"]  # the default, which is one object
        return _wrap_again, (DistributedOptimizer, inner, arguments)


NO_PRE_HOOKS = ("op=hvd.Adasum: a hook before step() would come too late, as the steps of single "
                "parameters are made during the backward pass")


class ReducingAdasum(Reducing):
    """Adasum reduces updates: the step of a parameter is made when its gradient is there."""

    _groups = _opt_plan = None
    _group_counts: dict = {}
    _reduces = True

    def __init__(self, optimizer: torch.optim.Optimizer):
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(
                f"op=hvd.Adasum with {type(optimizer).__name__}: it needs a closure in each step, "
                "and Adasum makes the steps of single parameters during the backward pass")
        if optimizer._optimizer_step_pre_hooks:
            raise ValueError(NO_PRE_HOOKS)
        super().__init__(optimizer)
        self._patch_step_function()

    def register_step_pre_hook(self, hook: Any) -> Any:
        raise ValueError(NO_PRE_HOOKS)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Gives up the step that has begun, as upstream's other optimizer does. What single
        parameters have added to the state in it is gone if `state_dict` is older."""
        left_steps.give_updates_up(self._handles, self._parameter_names)
        super().load_state_dict(state_dict)
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)

    def step_of_one(self) -> None:
        """The step of the optimizer that was wrapped, for the one parameter in its groups."""
        step = _class_of(self).step
        getattr(step, "__wrapped__", step)(self)  # without its hooks: those are step()'s

    def _watch(self, parameters: Iterable[torch.Tensor]) -> None:
        new = [parameter for parameter in parameters
               if parameter.requires_grad and parameter not in self._requires_update]
        for parameter in new:
            self._starting_models[parameter] = torch.zeros_like(parameter, requires_grad=False)
        super()._watch(new)


def distribute(optimizer: torch.optim.Optimizer, methods: type, **arguments: Any
               ) -> torch.optim.Optimizer:
    """`optimizer` with upstream's `methods`; the arguments are those of hvd.DistributedOptimizer.

    Raises: ValueError, if it reduces gradients already.
    """
    if isinstance(optimizer, Reducing):
        raise ValueError("hvd.DistributedOptimizer: the optimizer is one already")
    _install()
    # A copy, and the optimizer of a worker that comes to an elastic job, is made on one rank alone:
    # they agree in their first step.
    is_alone = vars(optimizer).pop("_is_copy", False) or os.environ.get("HOROVOD_ELASTIC") == "1"
    parameters = inspect.signature(methods.__init__).parameters
    mixin = ReducingAdasum if "op" not in parameters else Reducing
    is_adasum = mixin is ReducingAdasum
    wait = left_steps.keeps_values if is_adasum else left_steps.after_the_last_of_its_name
    senders = {name: wait(method) for name, method in vars(methods).items()
               if name in ("_allreduce_grad_async", "_grouped_allreduce_grad_async")}
    enders = {name: wrap(getattr(methods, name)) for name, wrap in (
        ("step" if is_adasum else "synchronize", _ends_step),
        ("load_state_dict", left_steps.gives_step_up)) if name in vars(methods)}
    cls = type(type(optimizer).__name__, (mixin, type(optimizer)),
               {**vars(methods), **senders, **enders})
    options = {name: value for name, value in arguments.items() if name in parameters}
    distributed = cls(optimizer, **options)
    distributed._arguments = {name: value for name, value in arguments.items()
                              if name != "named_parameters"}
    distributed._own_names = vars(distributed).keys() - vars(optimizer).keys() | {"_own_names"}
    if is_adasum:
        give_up = functools.partial(left_steps.give_updates_up, names=distributed._parameter_names)
    else:
        give_up = left_steps.detach_late_sums
        if not is_alone:
            distributed._agree_on_orders()
    weakref.finalize(distributed, give_up, distributed._handles).atexit = False
    return distributed


def _ends_step(end: Callable) -> Callable:
    @functools.wraps(end)
    def wrapper(optimizer: Reducing, *arguments: Any, **named: Any) -> Any:
        try:
            result = end(optimizer, *arguments, **named)
        except RuntimeError as error:
            optimizer._abandon_step(error)
            raise
        optimizer._end_step()
        return result

    return wrapper


def _wrap_again(wrap: Callable, optimizer: torch.optim.Optimizer, arguments: dict
                ) -> torch.optim.Optimizer:
    optimizer._is_copy = True
    return wrap(optimizer, **arguments)


def _class_of(optimizer: Reducing) -> type:
    """The class of the optimizer that was wrapped."""
    return type(optimizer).__bases__[1]


def _by_rank(optimizer: Reducing, values: list) -> str:
    return ", ".join(f"{int(value) if isinstance(value, float) else value} on rank {rank}"
                     for rank, value in zip(optimizer.process_set.ranks, values))


@functools.cache
def _install() -> None:
    """GradScaler looks at the gradients before step(): it has to see those that are reduced.

    Then they are finite on all ranks or on none, and all skip the same steps.
    """
    scaler = torch.amp.GradScaler
    unscale, step = scaler.unscale_, scaler.step

    def reduce(self: Any, optimizer: Any) -> bool:
        """Whether it is for this to reduce the gradients, and not for the script."""
        if not isinstance(optimizer, Reducing) or not self.is_enabled():
            return False
        if isinstance(optimizer, ReducingAdasum):
            raise ValueError("GradScaler with op=hvd.Adasum: updates are made during the backward "
                             "pass, of gradients that are still scaled")
        if optimizer._should_synchronize and not optimizer._synchronized:
            optimizer.synchronize()
        return optimizer._should_synchronize

    @functools.wraps(unscale)
    def unscale_reduced(self: Any, optimizer: Any) -> None:
        reduce(self, optimizer)
        unscale(self, optimizer)

    @functools.wraps(step)
    def step_reduced(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not reduce(self, optimizer):
            return step(self, optimizer, *args, **kwargs)
        with optimizer.skip_synchronize():
            result = step(self, optimizer, *args, **kwargs)
        optimizer._synchronized = False  # also if the step was skipped
        return result

    scaler.unscale_, scaler.step = unscale_reduced, step_reduced
