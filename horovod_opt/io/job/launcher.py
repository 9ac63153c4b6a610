"""What a launcher tells each process of a job."""

from __future__ import annotations

from collections.abc import Mapping

# By which the processes of a job know each other, and those of no other job.
_JOBS = (("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"), ("PMIX_NAMESPACE",),
         ("SLURM_JOB_ID",))


def nodes_of_launcher(variables: Mapping[str, str], unknown: int = 1) -> int:
    """How many nodes the job has, where a launcher says so to each process; else `unknown`."""
    for nodes in ("HOROVOD_CROSS_SIZE", "SLURM_STEP_NUM_NODES"):
        if nodes in variables:
            return int(variables[nodes])
    for size, local in (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                        ("PMI_SIZE", "MPI_LOCALNRANKS")):
        if size in variables and local in variables:
            return -(-int(variables[size]) // int(variables[local]))
    return unknown


def job_of_launcher(variables: Mapping[str, str]) -> str:
    """What is the same for all processes of a job and for those of no other one, where a launcher
    says so; else ""."""
    for names in _JOBS:
        if all(name in variables for name in names):
            return " ".join(variables[name] for name in names)
    return ""
