"""What is wrong with a trial that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trials import ENDS_JOB, ENDS_ROUND, REFUSED, Round, Trial

# What Horovod says, by the kind of fault. A rank that is killed breaks off what is under way: then
# it is what Gloo says of the connection, an UnknownError in TensorFlow.
SHUT_DOWN = "Horovod has been shut down"
OTHERS = {"raise": (SHUT_DOWN,), "shutdown": (SHUT_DOWN,), "never": (SHUT_DOWN,),
          "killed": (SHUT_DOWN, "HorovodInternalError", "/gloo/transport/")}
CULPRIT = {"raise": ("a bug in the training script",), "never": (SHUT_DOWN,),
           "shutdown": (SHUT_DOWN, "Horovod has not been initialized")}


def problems(trial: Trial, code: int, hung: bool, survivors: Sequence[str],
             reports: Mapping[int, Mapping]) -> list[str]:
    """Empty if everything went as it has to. `reports` by rank, as soak_rank.py writes them."""
    if hung:
        return ["hangs"]
    found = [f"outlives the job: {process}" for process in survivors]
    last = len(trial.rounds) - 1
    fault = trial.rounds[last].fault
    refused = any(report["rounds"][last]["refused"] for report in reports.values()
                  if len(report["rounds"]) > last)
    killed = fault is not None and fault.kind in ENDS_JOB and not refused
    if killed != (code != 0):
        found.append(f"the job ends with exit status {code}")
    for rank in range(trial.ranks):
        found += [f"rank {rank}: {problem}" for problem in _rank(
            trial, rank, reports.get(rank, {}).get("rounds", []), killed)]
    return found + _disagreements(trial, reports)


def _rank(trial: Trial, rank: int, rounds: Sequence[Mapping], killed: bool) -> list[str]:
    found = []
    # The launcher may end the others before they can report.
    needed = len(trial.rounds) - killed
    if len(rounds) < needed:
        found.append(f"no report of round {len(rounds)}")
    for number, (one, seen) in enumerate(zip(trial.rounds, rounds)):
        found += [f"round {number}: {problem}" for problem in _round(one, rank, seen)]
    return found


def _round(one: Round, rank: int, seen: Mapping) -> list[str]:
    found = [f"differs: {different}" for different in seen["different"]]
    kind, error = one.fault.kind if one.fault else "", seen["error"]
    if kind in REFUSED:
        return found if seen["refused"] else [*found, "settings that differ are not refused"]
    if seen["refused"]:
        return found if "scp" in one.mode else [*found, f"refused: {seen['refused']}"]
    if kind not in (*ENDS_ROUND, *ENDS_JOB):
        return [*found, error] if error else found
    # Upstream's inspector sees only the global process set; and TensorFlow may let Horovod's own
    # thread go on with the graph, so that it is what stays away.
    if kind == "never" and not error:
        return found
    expected = (CULPRIT if kind in CULPRIT and rank == one.fault.rank else OTHERS)[kind]
    if not any(text in error for text in expected):
        found.append(f"after {kind} on rank {one.fault.rank}: {error or 'no error'}")
    return found


def _disagreements(trial: Trial, reports: Mapping[int, Mapping]) -> list[str]:
    """Rounds whose settings some ranks refused and others did not."""
    found = []
    for number in range(len(trial.rounds)):
        refused = {bool(report["rounds"][number]["refused"]) for report in reports.values()
                   if len(report["rounds"]) > number}
        if len(refused) > 1:
            found.append(f"round {number}: refused on some ranks only")
    return found
