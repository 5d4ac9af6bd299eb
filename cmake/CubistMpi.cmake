# Finds MPI and Boost.MPI: sets CUBIST_MPI_FOUND, and defines MPI::MPI_CXX and Boost::mpi if it found both.
if(POLICY CMP0167 AND NOT Boost_NO_BOOST_CMAKE)
  cmake_policy(SET CMP0167 NEW) # take Boost's own package; the deprecated module of CMake finds a Boost without it
endif()
find_package(MPI QUIET COMPONENTS CXX)
find_package(Boost 1.74 QUIET COMPONENTS mpi serialization)
if(MPI_CXX_FOUND AND TARGET Boost::mpi AND TARGET Boost::serialization)
  set(CUBIST_MPI_FOUND TRUE)
else()
  set(CUBIST_MPI_FOUND FALSE)
endif()
