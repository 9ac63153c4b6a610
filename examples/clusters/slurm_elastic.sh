#!/bin/bash
# An elastic job on those nodes of the allocation that are up; its ranks talk through Gloo:
#     sbatch slurm_elastic.sh python train_elastic.py
# Submit it where Python's environment is activated: the job gets its PATH and all settings.
#SBATCH --job-name=elastic
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --no-kill
set -euo pipefail
export HOROVOD_OPT_MODE=${HOROVOD_OPT_MODE:-topo}

# horovodrun calls this every second. To sinfo --states a node that is drained is still allocated.
list="sinfo --noheader --Node --nodes='$SLURM_JOB_NODELIST' --format='%N %t'"
nodes="$list | sed -En 's/ (alloc|mix)$//p'"
exec horovodrun -np "$SLURM_NTASKS" --min-np 1 --max-np "$SLURM_NTASKS" \
  --slots-per-host "$SLURM_NTASKS_PER_NODE" --host-discovery-script "$nodes" "$@"
