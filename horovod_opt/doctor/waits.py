"""`horovod-opt doctor --pid`: who waits for whom, from the states of a job's ranks on this host."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from horovod_opt.doctor.rank_state import RankState, Wait

_NAMES = 3


def conclusions(states: Sequence[RankState]) -> list[str]:
    """Sentences, of one job; `states`: by rank."""
    lines = [line for state in states for line in _of_rank(state, states)]
    lines += _called_by_nobody(states)
    lines += _complete_everywhere(states)
    return list(dict.fromkeys(lines))


def _of_rank(state: RankState, states: Sequence[RankState]) -> Iterator[str]:
    name = state.name.capitalize()
    if state.problem:
        yield f"{name} says nothing: {state.problem}."
        return
    if state.phase:
        yield f"{name} is {state.phase}."
        return
    for what in state.locked:
        yield (f"{name}: another thread has held the lock of {what} for longer than 200 ms, and "
               "may be what everybody waits for.")
    for tensors, age in _performed(state):
        yield f"{name} performs {tensors}{age} and waits for ranks that do not."
    if any(wait.plan == "join" for wait in state.waits):
        yield f"{name} has joined, and waits for the others to do so."
    said = list(_missing(state, states))
    yield from said
    idle = not said and not state.performs
    if idle and not state.waits:
        yield f"{name} waits for nothing in Horovod: {_elsewhere(state)}"
    elif idle and state.misses:
        missing = _quoted([tensor for *_, tensor in state.misses])
        yield f"{name} has yet to call {missing} of a bucket that it has begun: {_elsewhere(state)}"


def _elsewhere(state: RankState) -> str:
    main = f" ({state.threads[0]})" if state.threads else ""
    return f"its script does something else{main}; py-spy dump --pid {state.pid} shows what."


def _performed(state: RankState) -> Iterator[tuple[str, str]]:
    if state.performs:
        yield _quoted(list(state.performs)), _age([*state.performs.values()])


def _missing(state: RankState, states: Sequence[RankState]) -> Iterator[str]:
    """What this rank waits for and others have not called."""
    culprits: dict[tuple[str, ...], list[Wait]] = {}
    for wait in state.waits:
        if wait.plan == "join" or wait.kind in ("deferred", "held"):
            continue
        members = state.process_sets.get(wait.process_set)
        absent = tuple(
            other.name for other in states
            if other is not state and not other.problem
            and (members is None or other.rank in members)
            and wait.process_set not in other.joined and not other.has_called(wait))
        culprits.setdefault(absent, []).append(wait)
    for absent, waits in culprits.items():
        waits.sort(key=lambda wait: -(wait.milliseconds or 0))
        tensors = _quoted([wait.name for wait in waits])
        age = _age([wait.milliseconds for wait in waits if wait.milliseconds is not None])
        if absent:
            have = "have" if len(absent) > 1 else "has"
            yield (f"{state.name.capitalize()} waits for {tensors}{age}, which {_ranks(absent)} "
                   f"{have} not called.")
        elif any(other.problem for other in states):
            silent = _ranks([other.name for other in states if other.problem])
            yield f"{state.name.capitalize()} waits for {tensors}{age}, perhaps for {silent}."
        elif state.size > len(states):
            yield (f"{state.name.capitalize()} waits for {tensors}{age}, which all ranks of this "
                   "host have called: ask those of the other hosts.")
    held = [wait.name for wait in state.waits if wait.kind == "held"]
    if held:
        yield (f"{state.name.capitalize()} has called {_quoted(held)} for its next step, and waits "
               "until this one is over.")
    deferred = [wait.name for wait in state.waits if wait.kind == "deferred"]
    if deferred:
        yield (f"{state.name.capitalize()} has called {_quoted(deferred)}, and waits until the "
               "ranks have voted on the plan.")


def _called_by_nobody(states: Sequence[RankState]) -> Iterator[str]:
    """Tensors that a bucket lacks on every rank."""
    answering = [state for state in states if not state.problem]
    lacking: dict[tuple[str, int], list[str]] = {}
    misses = (miss for state in answering for miss in state.misses)
    for process_set, plan, iteration, name in dict.fromkeys(misses):
        wait = Wait(process_set, "begun", plan, iteration, None, name)
        if any(state.has_called(wait) for state in answering):
            continue
        plan_name = next((state.plans[process_set, plan][0] for state in answering
                          if (process_set, plan) in state.plans), plan)
        lacking.setdefault((plan_name, iteration), []).append(name)
    for (plan_name, iteration), names in lacking.items():
        yield (f"{_quoted(names)}: no rank here has called {'them' if len(names) > 1 else 'it'} in "
               f"iteration {iteration} of plan {plan_name}; the rest of the bucket waits for "
               f"{'them' if len(names) > 1 else 'it'}.")


def _complete_everywhere(states: Sequence[RankState]) -> Iterator[str]:
    """Tensors that all ranks of the job have called, and nobody has the sums of."""
    first, *others = states
    if first.problem or first.size > len(states) or any(state.problem for state in others):
        return
    waits = [wait for wait in first.waits
             if wait.kind in ("complete", "negotiated") and wait.plan not in ("join", "barrier")
             and wait.process_set == 0
             and all(other.has_called(wait) and not other.joined
                     and any((own.kind, own.name) == (wait.kind, wait.name) for own in other.waits)
                     for other in others)]
    for planned, some in itertools.groupby(sorted(waits, key=lambda wait: wait.is_planned),
                                           key=lambda wait: wait.is_planned):
        group = list(some)
        age = _age([wait.milliseconds for wait in group if wait.milliseconds is not None])
        where = "the threads hvd-planned and hvd-nodes" if planned else "the background threads"
        yield (f"All ranks have called {_quoted([wait.name for wait in group])}{age}, and none has "
               f"the result: see below what {where} do.")


def _quoted(names: Sequence[str]) -> str:
    text = ", ".join(f"'{name}'" for name in names[:_NAMES])
    return text + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")


def _age(milliseconds: Sequence[int]) -> str:
    return f" ({max(milliseconds) / 1000:.1f} s)" if milliseconds else ""


def _ranks(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
