#!/bin/bash
# One rank for each task of the allocation, started by Slurm itself:
#     sbatch slurm_srun.sh python train.py
# Submit it where Python's environment is activated: the job gets its PATH and all settings.
#SBATCH --job-name=srun
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
set -euo pipefail
export HOROVOD_OPT_MODE=${HOROVOD_OPT_MODE:-topo}

# From Slurm 22.05 on, srun does not take this option from sbatch.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
fi
# Without PMIx each task would train alone, as the only rank of a job of its own.
exec srun --mpi=pmix --kill-on-bad-exit=1 "$@"
