# An installed cubist's component mpi: cubist::mpi.
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
include(CubistMpi)
list(POP_FRONT CMAKE_MODULE_PATH)

set(cubist_mpi_FOUND ${CUBIST_MPI_FOUND})
set(cubist_mpi_NEEDS "MPI and Boost.MPI")
if(CUBIST_MPI_FOUND)
  include("${CMAKE_CURRENT_LIST_DIR}/cubist-mpi-targets.cmake")
endif()
