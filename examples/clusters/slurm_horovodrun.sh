#!/bin/bash
# One rank for each task of the allocation, started by horovodrun:
#     sbatch slurm_horovodrun.sh python train.py
# Submit it where Python's environment is activated: the job gets its PATH and all settings.
#SBATCH --job-name=horovodrun
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
set -euo pipefail
export HOROVOD_OPT_MODE=${HOROVOD_OPT_MODE:-topo}

exec horovodrun "$@"
