# ScaLAPACK, of the MPI that cubist uses: CUBIST_SCALAPACK_LIBRARY. The benchmarks compare with it, and libcubist_pblas
# replaces some of its routines.
find_library(CUBIST_SCALAPACK_LIBRARY NAMES scalapack-openmpi scalapack DOC "ScaLAPACK, of the same MPI")
