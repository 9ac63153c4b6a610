"""`horovod-opt doctor --pid`: asks all ranks of a job on this host, and prints one page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from horovod_opt.doctor import rank_processes as processes
from horovod_opt.doctor.rank_state import RankState, page, parse
from horovod_opt.doctor.waits import conclusions


def run(pids: Sequence[int], as_json: bool) -> int:
    """Exit status 1 if some of the processes is none of a job's, or a rank says nothing."""
    named, problems = _named(pids)
    states = _with_their_jobs(named)
    # Of a fork whose sockets are still its parent's, or of a rank that has left meanwhile.
    answering = {state.pid for state in states}
    problems += [processes.not_a_rank(pid) for pid in named if pid not in answering]
    jobs = _by_job(states)
    if as_json:
        print(json.dumps({
            "problems": problems,
            "jobs": [{"conclusions": conclusions(job), "ranks": [_fields(state) for state in job]}
                     for job in jobs]}, indent=2))
    else:
        print("\n".join([*problems, *_text(jobs)]))
    return int(bool(problems) or any(state.problem for state in states))


def _named(pids: Sequence[int]) -> tuple[list[int], list[str]]:
    """The ranks that these processes are or have started, and what is wrong with the others."""
    ranks, problems = [], []
    for pid in dict.fromkeys(pids):
        problem = processes.refusal(pid)
        found = [] if problem else [pid] if processes.sockets(pid) else processes.ranks_below(pid)
        ranks += found
        if not found:
            problems.append(problem or processes.not_a_rank(pid))
    return list(dict.fromkeys(ranks)), problems


def _with_their_jobs(named: Sequence[int]) -> list[RankState]:
    """The states of these ranks and of all others here that belong to their jobs."""
    if not named:
        return []
    users = {processes.user_of(pid) for pid in named}
    others = [pid for pid in processes.pids() if pid not in named
              and processes.user_of(pid) in users and processes.sockets(pid)]
    with ThreadPoolExecutor(32) as pool:
        states = [state for of_process in pool.map(_states, [*named, *others])
                  for state in of_process]
    keys = {_key(state) for state in states if state.pid in named}
    return [state for state in states if _key(state) in keys]


def _states(pid: int) -> list[RankState]:
    """One for each framework whose Horovod runs in the process."""
    states = []
    for name in processes.sockets(pid):
        try:
            state = parse(pid, processes.ask(pid, name))
        except processes.NoAnswer as problem:
            state = RankState(pid, problem=str(problem))
        environ = processes.environment(pid)
        if state.rank < 0:
            state.rank = processes.rank_from(environ)
        state.job = state.job or processes.job_from(environ)
        state.threads = processes.threads(pid)
        if not state.problem.startswith("its socket"):
            states.append(state)
    return states


def _key(state: RankState) -> str:
    """What the ranks of a job on this host have in common: the launcher's name for it, or their
    parent."""
    return state.job or f"parent {processes.parent_of(state.pid)}"


def _by_job(states: Sequence[RankState]) -> list[list[RankState]]:
    """Of a job with two frameworks, each is a job; who has not told its own is in all."""
    frameworks = sorted({(_key(state), state.framework) for state in states if state.framework})
    jobs = [[state for state in states
             if _key(state) == key and state.framework in (framework, "")]
            for key, framework in frameworks]
    known = {key for key, _ in frameworks}
    rest = sorted({_key(state) for state in states} - known)
    jobs += [[state for state in states if _key(state) == key] for key in rest]
    return [sorted(job, key=lambda state: state.rank) for job in jobs]


def _text(jobs: Sequence[Sequence[RankState]]) -> list[str]:
    lines = []
    for job in jobs:
        lines += [*conclusions(job), ""]
        for state in job:
            lines += [*page(state), ""]
    return lines[:-1]


def _fields(state: RankState) -> dict[str, object]:
    return {**{name: value for name, value in vars(state).items()
               if name not in ("plans", "behind", "misses", "waits", "lines")},
            "waits": [dataclasses.asdict(wait) for wait in state.waits],
            "page": list(page(state))}
