"""The numbers of this rank, from what its launcher tells it to what torch.distributed reads.

`init_method="env://"`, and programs that look for a launcher of PyTorch, read RANK, WORLD_SIZE,
LOCAL_RANK and LOCAL_WORLD_SIZE. mpirun, srun and horovodrun have names of their own for them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# In this order: horovodrun may run in an allocation of Slurm, and mpirun starts ranks by srun.
LAUNCHERS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
)


def fill_in(environ: MutableMapping[str, str]) -> None:
    """Where the job has said by MASTER_ADDR where its ranks meet; what is there stays. Nothing
    where there are other numbers already, as below torchrun, and in elastic jobs, where they
    change."""
    if not environ.get("MASTER_ADDR") or environ.get("HOROVOD_ELASTIC") == "1":
        return
    found = find(environ)
    if all(environ.get(name, value) == value for name, value in found.items()):
        environ.update(found)


def find(environ: Mapping[str, str]) -> dict[str, str]:
    """By torch.distributed's names; nothing outside of a job of these launchers."""
    for names in LAUNCHERS:
        if all(environ.get(name, "").isdigit() for name in names[:2]):
            found = {ours: environ[name] for ours, name in zip(NAMES, names) if name in environ}
            if names[0] == "SLURM_PROCID":
                from horovod_opt.launcher.slurm_step import local_tasks

                found["LOCAL_WORLD_SIZE"] = str(local_tasks(environ))
            return found
    return {}
