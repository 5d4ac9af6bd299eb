# Run with -P; see ../package.cmake. Starts from nothing, so that what an earlier run installed
# can't hide what is missing now.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")

if(WAY STREQUAL find_package)
  set(prefix "${WORK_DIR}/prefix")
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${CUBIST_BINARY_DIR}" --prefix "${prefix}"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  # The README's project and program.
  include("${CUBIST_SOURCE_DIR}/cmake/CubistReadme.cmake")
  cubist_readme_block(project cmake "find_package(cubist")
  cubist_readme_block(source cpp "int main(")
  if(NOT MPI)
    string(REPLACE "core mpi" "core" project "${project}")
    string(REPLACE "cubist::mpi)" "cubist::cubist)" project "${project}")
  endif()
  file(WRITE "${WORK_DIR}/readme/CMakeLists.txt" "${project}")
  file(WRITE "${WORK_DIR}/readme/my_program.cpp" "${source}")
  set(program readme/my_program)
  set(how "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}" "-DREADME_PROJECT=${WORK_DIR}/readme")
else()
  set(program consumer)
  set(how "-DCUBIST_SOURCE_DIR=${CUBIST_SOURCE_DIR}" "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}")
endif()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCUBIST_MPI=${MPI}"
    "-DCUBIST_NCCL=${NCCL}" ${how}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/build/${program}" COMMAND_ERROR_IS_FATAL ANY)
if(MPI)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
  execute_process(COMMAND "${WORK_DIR}/build/mpi_consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NCCL)
  execute_process(COMMAND "${WORK_DIR}/build/nccl_consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
