include(CMakePackageConfigHelpers)

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/cubistConfig.cmake.in" "${PROJECT_BINARY_DIR}/cubistConfig.cmake"
  INSTALL_DESTINATION "${CUBIST_CMAKE_DIR}"
  NO_SET_AND_CHECK_MACRO)

# Before 1.0 a minor version may break; headers do not depend on the processor.
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

# Of the planner and the simulator; programs find them by their names (cubist/machine/find_machine.hpp).
install(DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/../machines" DESTINATION "${CMAKE_INSTALL_DATADIR}/cubist" COMPONENT core)

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

include(CubistPkgConfig)
if(PROJECT_IS_TOP_LEVEL)
  include(CubistPackage)
endif()
