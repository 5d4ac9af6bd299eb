# Run with -P in cubist's folder; see ../package.cmake.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
execute_process(
  COMMAND "${CMAKE_COMMAND}" --preset install -B "${WORK_DIR}/build" -DCUBIST_WITH_MPI=OFF -DCUBIST_WITH_NCCL=OFF
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK_DIR}/build" --prefix "${prefix}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(file IN ITEMS include/cubist/cubist.hpp share/cmake/cubist/cubistConfig.cmake)
  if(NOT EXISTS "${prefix}/${file}")
    message(FATAL_ERROR "the preset install does not install ${file}")
  endif()
endforeach()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE objects "${WORK_DIR}/build/*.o")
if(objects)
  message(FATAL_ERROR "the preset install compiles ${objects}")
endif()
