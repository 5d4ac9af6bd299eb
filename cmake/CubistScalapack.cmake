# Finds the ScaLAPACK for the MPI that cubist uses, and sets CUBIST_SCALAPACK_LIBRARY. The benchmarks compare with it, and
# libcubist_pblas replaces some of its routines.
find_library(CUBIST_SCALAPACK_LIBRARY NAMES scalapack-openmpi scalapack DOC "ScaLAPACK for the same MPI")
