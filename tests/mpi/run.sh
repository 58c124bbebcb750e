#!/bin/sh
# run.sh MPIEXEC RANKS COMMAND...: on more ranks than there are cores, as any
# user, of any MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
mpiexec=$1
ranks=$2
shift 2
exec "$mpiexec" -n "$ranks" "$@"
