"""Part 3: jobs with tensors on GPUs and in main memory, planned and negotiated; in some of them a
rank is killed in the middle of a step."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_builds import NCCL
from gpu_table import Row, judge
from jobs import Job
from part_setup import Setup, problem

STEPS, END, NEVER = 40, 25, -1
ENDS = "Horovod has been shut down"
MODE = {"HOROVOD_OPT_MODE": "topo"}
LEAST_ACTIVE = 3  # plans


def rows(setup: Setup) -> Iterator[Row]:
    ranks = max(2, setup.gpus) if setup.build == NCCL else 2
    build = "with NCCL" if setup.build == NCCL else "without GPU operations"
    for controller in ("mpi", "gloo"):
        job = setup.job(f"mixed-{controller}", "mixed_devices", setup.library, STEPS, NEVER,
                        ranks=ranks, controller=controller, **MODE)
        yield works(f"{build}, {ranks} ranks, {controller}", job, ranks)
    job = setup.job("killed", "mixed_devices", setup.library, STEPS, END, ranks=ranks,
                    controller="gloo", **MODE)
    yield ends(f"{build}: a rank is killed", job, ranks)


def works(what: str, job: Job, ranks: int) -> Row:
    wrong = problem(job, ranks)
    if wrong:
        return judge("3", what, wrong, False)
    reports = job.of_ranks(ranks)
    sums = sum(report["wrong"] for report in reports)
    active = min(report["states"].count("active") for report in reports)
    return judge("3", what, f"{STEPS} steps, {sums} wrong sums, {active} active plans",
                 sums == 0 and active >= LEAST_ACTIVE
                 and all(report["step"] == STEPS for report in reports))


def ends(what: str, job: Job, ranks: int) -> Row:
    """All but the killed rank have an error, in the step in which it was killed."""
    reports = job.reports()
    if job.hung or job.survivors or job.code == 0:
        end = "no end" if job.hung else f"exit status {job.code}, {len(job.survivors)} are left"
        return judge("3", what, f"{end}; see {job.folder / 'output.txt'}", False)
    errors = [report for report in reports.values()
              if report["step"] == END and report["wrong"] == 0 and ENDS in report["outcome"]
              and report["states"].count("active") >= LEAST_ACTIVE]
    return judge("3", what, f"{len(errors)} of {ranks - 1} others have the error",
                 list(reports) == list(range(ranks - 1)) and len(errors) == ranks - 1)
