# `cpack --config build/install/CPackConfig.cmake` makes a Debian package of each component, for the release of Debian or Ubuntu
# that it runs on. packaging/debian/check installs the packages in a bare system.
#   libcubist-dev       the core
#   libcubist-mpi-dev   cubist::mpi, for the MPI that Boost.MPI was built for
#   libcubist-nccl-dev  cubist::nccl; CUDA and NCCL, which Debian itself lacks, come from NVIDIA's packages
#   libcubist-compiled-dev, libcubist-compiled-mpi-dev  the compiled libraries, if built with CUBIST_BUILD_LIBRARY
#   cubist-plan         the planner, if built with CUBIST_BUILD_PLANNER
#   libcubist-pblas     routines that replace ScaLAPACK's, if built with CUBIST_BUILD_PBLAS; programs need no headers
set(CPACK_PACKAGE_NAME cubist)
set(CPACK_PACKAGE_VENDOR "The cubist authors")
set(CPACK_PACKAGE_CONTACT "The cubist authors")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL core)
foreach(component IN ITEMS mpi nccl compiled compiled_mpi)
  if(TARGET cubist_${component})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endif()
endforeach()
if(CUBIST_BUILD_PLANNER)
  list(APPEND CPACK_COMPONENTS_ALL planner)
endif()
if(CUBIST_BUILD_PBLAS)
  list(APPEND CPACK_COMPONENTS_ALL pblas)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# The dependency is not libopenblas-dev: any build of OpenBLAS provides that, even the one that is wrong under threads.
set(CPACK_DEBIAN_CORE_PACKAGE_NAME libcubist-dev)
set(CPACK_DEBIAN_CORE_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_CORE_PACKAGE_DEPENDS
  "libopenblas-pthread-dev, libxtensor-dev, libxtensor-blas-dev, librandom123-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_CORE_PACKAGE_SUGGESTS "libcubist-mpi-dev, cmake (>= 3.24), pkgconf")
set(CPACK_COMPONENT_CORE_DESCRIPTION 
  "Headers that multiply matrices, and train MLPs and transformers, over many ranks.\nA rank is a thread; libcubist-mpi-dev has MPI processes, libcubist-nccl-dev GPUs.")

set(CPACK_DEBIAN_MPI_PACKAGE_NAME libcubist-mpi-dev)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "libcubist-dev (= ${PROJECT_VERSION}), libboost-mpi-dev, libopenmpi-dev")
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_COMPONENT_MPI_DESCRIPTION "The backend Mpi: ranks are MPI processes.")

set(CPACK_DEBIAN_NCCL_PACKAGE_NAME libcubist-nccl-dev)
set(CPACK_DEBIAN_NCCL_PACKAGE_DEPENDS "libcubist-dev (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_NCCL_PACKAGE_SUGGESTS "cuda-toolkit-13-0, libnccl-dev")
set(CPACK_COMPONENT_NCCL_DESCRIPTION "The backend Nccl: each rank has a GPU, and ranks communicate by NCCL.")

set(CPACK_DEBIAN_COMPILED_PACKAGE_NAME libcubist-compiled-dev)
set(CPACK_DEBIAN_COMPILED_PACKAGE_DEPENDS "libcubist-dev (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_COMPILED_DESCRIPTION "A library of common instances: programs compile in less time.")

set(CPACK_DEBIAN_COMPILED_MPI_PACKAGE_NAME libcubist-compiled-mpi-dev)
set(CPACK_DEBIAN_COMPILED_MPI_PACKAGE_DEPENDS
  "libcubist-compiled-dev (= ${PROJECT_VERSION}), libcubist-mpi-dev (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_COMPILED_MPI_DESCRIPTION "The compiled library for the backend Mpi.")

# libcubist-dev contains the machines. The other dependencies are the libraries that the planner was linked to, under this
# release's names.
set(CPACK_DEBIAN_PLANNER_PACKAGE_NAME cubist-plan)
set(CPACK_DEBIAN_PLANNER_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PLANNER_PACKAGE_DEPENDS "libcubist-dev (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PLANNER_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PLANNER_DESCRIPTION
  "Plans a network on many ranks: schemes and meshes by their predicted time and memory.")

# The dependencies are the libraries that it was linked to, under this release's names.
set(CPACK_DEBIAN_PBLAS_PACKAGE_NAME libcubist-pblas)
set(CPACK_DEBIAN_PBLAS_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PBLAS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PBLAS_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_PBLAS_PACKAGE_SUGGESTS libscalapack-openmpi-dev)
set(CPACK_COMPONENT_PBLAS_DESCRIPTION
  "Products and sums of ScaLAPACK's matrices by cubist.\nPrograms that call pdgemm link this library before ScaLAPACK, or preload it.")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}"
    RENAME copyright
    COMPONENT ${component})
endforeach()
include(CPack)
