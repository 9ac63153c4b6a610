#!/bin/bash
# Ranks started by Open MPI's mpirun, one for each task of a Slurm allocation or on hosts of yours:
#     sbatch mpirun.sh python train.py
#     HOSTS=localhost:4 ./mpirun.sh python train.py
# HOSTS is name:ranks,name:ranks. Start it where Python's environment is activated.
#SBATCH --job-name=mpirun
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
set -euo pipefail
export HOROVOD_OPT_MODE=${HOROVOD_OPT_MODE:-topo}

# By default mpirun binds two ranks to a core each, with all threads that they have.
options=(--map-by slot --bind-to none)
if [ -n "${HOSTS:-}" ]; then
  options+=(--host "$HOSTS")
fi
# Ranks on other hosts get only those variables that are named.
for name in PATH "${!HOROVOD_@}"; do
  options+=(-x "$name")
done
exec mpirun "${options[@]}" "$@"
