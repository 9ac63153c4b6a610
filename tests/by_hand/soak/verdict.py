"""What is wrong with a trial that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trials import ENDS_JOB, ENDS_ROUND, REFUSED, Round, Trial

# What Horovod says, by the kind of fault. A rank that is killed breaks off what is under way: then
# it is what Gloo says of the connection, an UnknownError in TensorFlow.
SHUT_DOWN = "Horovod has been shut down"
# In topo the step of a rank that ends may first be over for the others.
ABANDONED = "was abandoned: rank"
OTHERS = {"raise": (SHUT_DOWN, ABANDONED), "shutdown": (SHUT_DOWN, ABANDONED),
          "never": (SHUT_DOWN,), "killed": (SHUT_DOWN, "HorovodInternalError", "/gloo/transport/")}
CULPRIT = {"raise": ("a bug in the training script",), "never": (SHUT_DOWN,),
           "shutdown": (SHUT_DOWN, "Horovod has not been initialized")}


def problems(trial: Trial, code: int, hung: bool, survivors: Sequence[str],
             reports: Mapping[int, Mapping]) -> list[str]:
    """Empty if everything went as it has to. `reports` by rank, as soak_rank.py writes them."""
    if hung:
        return ["hangs"]
    texts = [f"outlives the job: {process}" for process in survivors]
    last = len(trial.rounds) - 1
    fault = trial.rounds[last].fault
    refused = any(report["rounds"][last]["refused"] for report in reports.values()
                  if len(report["rounds"]) > last)
    killed = fault is not None and fault.kind in ENDS_JOB and not refused
    if killed != (code != 0):
        texts.append(f"the job ends with exit status {code}")
    for rank in range(trial.ranks):
        texts += [f"rank {rank}: {problem}" for problem in _rank(
            trial, rank, reports.get(rank, {}).get("rounds", []), killed)]
    return texts + _disagreements(trial, reports) + _other_bits(reports)


def _rank(trial: Trial, rank: int, rounds: Sequence[Mapping], killed: bool) -> list[str]:
    texts = []
    # The launcher may end the others before they can report.
    needed = len(trial.rounds) - killed
    if len(rounds) < needed:
        texts.append(f"no report of round {len(rounds)}")
    for number, (round_, outcome) in enumerate(zip(trial.rounds, rounds)):
        texts += [f"round {number}: {problem}" for problem in _round(round_, rank, outcome)]
    return texts


def _round(round_: Round, rank: int, outcome: Mapping) -> list[str]:
    texts = [f"differs: {different}" for different in outcome["different"]]
    kind, error = round_.fault.kind if round_.fault else "", outcome["error"]
    if kind in REFUSED:
        return texts if outcome["refused"] else [*texts, "settings that differ are not refused"]
    if outcome["refused"]:
        return texts if "scp" in round_.mode else [*texts, f"refused: {outcome['refused']}"]
    if kind not in (*ENDS_ROUND, *ENDS_JOB):
        return [*texts, error] if error else texts
    # Upstream's inspector sees only the global process set; and TensorFlow may let Horovod's own
    # thread go on with the graph, so that it is what stays away.
    if kind == "never" and not error:
        return texts
    expected = (CULPRIT if kind in CULPRIT and rank == round_.fault.rank else OTHERS)[kind]
    if not any(text in error for text in expected):
        texts.append(f"after {kind} on rank {round_.fault.rank}: {error or 'no error'}")
    return texts


def _disagreements(trial: Trial, reports: Mapping[int, Mapping]) -> list[str]:
    """Rounds whose settings some ranks refused and others did not."""
    texts = []
    for number in range(len(trial.rounds)):
        refused = {bool(report["rounds"][number]["refused"]) for report in reports.values()
                   if len(report["rounds"]) > number}
        if len(refused) > 1:
            texts.append(f"round {number}: refused on some ranks only")
    return texts


def _other_bits(reports: Mapping[int, Mapping]) -> list[str]:
    """Planned reductions whose results are not the same bits on all ranks."""
    known: dict[str, dict[int, int]] = {}
    for rank, report in reports.items():
        for round_ in report["rounds"]:
            for where, digest in round_["digests"].items():
                known.setdefault(where, {})[rank] = digest
    return [f"{where}: other bits on each rank: {digests}"
            for where, digests in known.items() if len(set(digests.values())) > 1][:5]
