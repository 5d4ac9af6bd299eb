# Tests a consumer's project, which gets cubist in either of two ways.
set(nccl OFF)
if(TARGET cubist_nccl)
  set(nccl ON)
endif()
set(mpi OFF)
if(TARGET cubist_mpi)
  set(mpi ON)
endif()

find_program(dpkg_deb dpkg-deb)
mark_as_advanced(dpkg_deb)
if(dpkg_deb)
  add_test(NAME "package: Debian packages"
    COMMAND "${CMAKE_COMMAND}" "-DCPACK=${CMAKE_CPACK_COMMAND}" "-DCUBIST_BINARY_DIR=${PROJECT_BINARY_DIR}"
      "-DWORK_DIR=${PROJECT_BINARY_DIR}/package/deb" "-DVERSION=${PROJECT_VERSION}" "-DMPI=${mpi}" "-DNCCL=${nccl}"
      "-DPBLAS=${CUBIST_BUILD_PBLAS}" "-DPLANNER=${CUBIST_BUILD_PLANNER}" -P "${CMAKE_CURRENT_LIST_DIR}/package/deb.cmake")
  set_tests_properties("package: Debian packages" PROPERTIES LABELS package TIMEOUT 120)
endif()

add_test(NAME "package: compiled library"
  COMMAND "${CMAKE_COMMAND}"
    "-DCUBIST_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
    "-DWORK_DIR=${PROJECT_BINARY_DIR}/package/compiled"
    "-DMPI=${mpi}"
    "-DGENERATOR=${CMAKE_GENERATOR}"
    "-DCOMPILER=${CMAKE_CXX_COMPILER}"
    "-DFLAGS=${CMAKE_CXX_FLAGS}"
    "-DPREFIX_PATH=${CMAKE_PREFIX_PATH}"
    -P "${CMAKE_CURRENT_LIST_DIR}/package/compiled.cmake")
set_tests_properties("package: compiled library" PROPERTIES LABELS package TIMEOUT 300 PROCESSORS 2)

set(ways find_package)
find_package(Git QUIET)
if(Git_FOUND)
  list(APPEND ways FetchContent)
endif()
foreach(way IN LISTS ways)
  add_test(NAME "package: ${way}"
    COMMAND "${CMAKE_COMMAND}"
      "-DWAY=${way}"
      "-DCUBIST_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
      "-DCUBIST_BINARY_DIR=${PROJECT_BINARY_DIR}"
      "-DWORK_DIR=${PROJECT_BINARY_DIR}/package/${way}"
      "-DMPI=${mpi}"
      "-DNCCL=${nccl}"
      "-DPBLAS=$<$<TARGET_EXISTS:cubist_pblas>:$<TARGET_FILE:cubist_pblas>>"
      "-DGENERATOR=${CMAKE_GENERATOR}"
      "-DCOMPILER=${CMAKE_CXX_COMPILER}"
      "-DFLAGS=${CMAKE_CXX_FLAGS}"
      "-DPREFIX_PATH=${CMAKE_PREFIX_PATH}"
      -P "${CMAKE_CURRENT_LIST_DIR}/package/check.cmake")
  set(mpi OFF) # the components are found once
  set(nccl OFF)
  set_tests_properties("package: ${way}" PROPERTIES LABELS package TIMEOUT 300)
endforeach()

# The preset that the README names installs without a build.
add_test(NAME "package: install preset"
  COMMAND "${CMAKE_COMMAND}" "-DCOMPILER=${CMAKE_CXX_COMPILER}"
    "-DPREFIX_PATH=${CMAKE_PREFIX_PATH}" -P "${CMAKE_CURRENT_LIST_DIR}/package/preset.cmake"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
set_tests_properties("package: install preset" PROPERTIES LABELS package TIMEOUT 60)

add_test(NAME "package: versions"
  COMMAND "${CMAKE_COMMAND}" "-DCUBIST_SOURCE_DIR=${PROJECT_SOURCE_DIR}" -P "${CMAKE_CURRENT_LIST_DIR}/package/versions.cmake")
set_tests_properties("package: versions" PROPERTIES LABELS package)
