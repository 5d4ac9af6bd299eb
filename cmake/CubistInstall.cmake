include(CMakePackageConfigHelpers)

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/cubistConfig.cmake.in" "${PROJECT_BINARY_DIR}/cubistConfig.cmake"
  INSTALL_DESTINATION "${CUBIST_CMAKE_DIR}"
  NO_SET_AND_CHECK_MACRO)

# Before 1.0 a minor version may break programs. Headers do not depend on the processor.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cubistConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)

install(
  FILES
    "${PROJECT_BINARY_DIR}/cubistConfig.cmake"
    "${PROJECT_BINARY_DIR}/cubistConfigVersion.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/CubistBlas.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/FindRandom123.cmake"
  DESTINATION "${CUBIST_CMAKE_DIR}"
  COMPONENT core)

# The planner's and the simulator's machines. Programs find them by name, near the headers that they were compiled with
# (cubist/machine/find_machine.hpp). If headers and data have different prefixes, a header says where the machines are.
install(DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/../machines" DESTINATION "${CMAKE_INSTALL_DATADIR}/cubist" COMPONENT core)
cmake_path(GET CMAKE_INSTALL_FULL_DATADIR FILENAME share)
cmake_path(GET CMAKE_INSTALL_FULL_DATADIR PARENT_PATH prefix)
cmake_path(IS_PREFIX prefix "${CMAKE_INSTALL_FULL_INCLUDEDIR}" NORMALIZE is_around)
if(NOT share STREQUAL "share" OR NOT is_around)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/installed_machines.hpp" @ONLY CONTENT
"#pragma once
#define CUBIST_INSTALLED_MACHINES \"@CMAKE_INSTALL_FULL_DATADIR@/cubist/machines\"
")
  install(FILES "${PROJECT_BINARY_DIR}/installed_machines.hpp"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cubist/machine" COMPONENT core)
endif()

if(TARGET cubist_mpi)
  install(
    FILES
      "${CMAKE_CURRENT_LIST_DIR}/CubistMpi.cmake"
      "${CMAKE_CURRENT_LIST_DIR}/cubist-mpi.cmake"
    DESTINATION "${CUBIST_CMAKE_DIR}"
    COMPONENT mpi)
endif()

if(TARGET cubist_nccl)
  install(
    FILES
      "${CMAKE_CURRENT_LIST_DIR}/CubistNccl.cmake"
      "${CMAKE_CURRENT_LIST_DIR}/cubist-nccl.cmake"
    DESTINATION "${CUBIST_CMAKE_DIR}"
    COMPONENT nccl)
endif()

# If the library is built only for programs of this project, it is installed only if its component is named.
if(TARGET cubist_pblas)
  set(CUBIST_PBLAS_INSTALL COMPONENT pblas)
  if(NOT CUBIST_BUILD_PBLAS)
    list(APPEND CUBIST_PBLAS_INSTALL EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS cubist_pblas EXPORT cubist-pblas
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${CUBIST_PBLAS_INSTALL} NAMELINK_COMPONENT pblas)
  if(TARGET cubist_pblas64)
    install(TARGETS cubist_pblas64
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${CUBIST_PBLAS_INSTALL} NAMELINK_COMPONENT pblas)
  endif()
  install(EXPORT cubist-pblas
    FILE cubist-pblas-targets.cmake
    NAMESPACE cubist::
    DESTINATION "${CUBIST_CMAKE_DIR}"
    ${CUBIST_PBLAS_INSTALL})
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/cubist-pblas.cmake" DESTINATION "${CUBIST_CMAKE_DIR}" ${CUBIST_PBLAS_INSTALL})
endif()

include(CubistPkgConfig)
if(PROJECT_IS_TOP_LEVEL)
  include(CubistPackage)
endif()
