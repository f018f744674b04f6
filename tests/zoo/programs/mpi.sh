#!/usr/bin/env bash
# mpi.sh PROGRAM - two ranks of Open MPI on this machine.
# zoo: prints ring of 2: right
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$PWD
mpirun --oversubscribe -n 2 "$1"
