# MPI and Boost.MPI: sets CUBIST_MPI_FOUND, and defines MPI::MPI_CXX and Boost::mpi if so.
find_package(MPI QUIET COMPONENTS CXX)
find_package(Boost 1.74 QUIET COMPONENTS mpi serialization)
if(MPI_CXX_FOUND AND TARGET Boost::mpi AND TARGET Boost::serialization)
  set(CUBIST_MPI_FOUND TRUE)
else()
  set(CUBIST_MPI_FOUND FALSE)
endif()
