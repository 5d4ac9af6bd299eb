# An installed cubist's component compiled_mpi: cubist::compiled_mpi, which needs the components compiled and mpi.
include("${CMAKE_CURRENT_LIST_DIR}/cubist-compiled.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cubist-mpi.cmake")
set(cubist_compiled_mpi_FOUND ${cubist_mpi_FOUND})
set(cubist_compiled_mpi_NEEDS ${cubist_mpi_NEEDS})
if(cubist_mpi_FOUND)
  include("${CMAKE_CURRENT_LIST_DIR}/cubist-compiled_mpi-targets.cmake")
endif()
