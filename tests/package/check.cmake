# Run with -P; see ../package.cmake. Starts from nothing, so that what an earlier run installed
# cannot hide what is missing now.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")

set(pblas OFF)
if(WAY STREQUAL find_package)
  set(prefix "${WORK_DIR}/prefix")
  set(install "${CMAKE_COMMAND}" --install "${CUBIST_BINARY_DIR}" --prefix "${prefix}")
  execute_process(COMMAND ${install} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS "${PBLAS}")
    set(pblas ON)
    execute_process(COMMAND ${install} --component pblas OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # A machine with a name of no other file, because the folders around these programs have cubist's machines, too.
  set(machine "${prefix}/share/cubist/machines/of_this_prefix.json")
  file(WRITE "${machine}" "{}")
  if(EXISTS "${CUBIST_BINARY_DIR}/tools/cubist_plan")
    execute_process(COMMAND "${prefix}/bin/cubist_plan" --layers 8,8 --tokens 8 --ranks 2 --machine of_this_prefix
      OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # What pkg-config says of each component compiles and links, its version is that of the header, and the header finds the
  # machines of the installation.
  find_program(pkg_config NAMES pkgconf pkg-config)
  if(pkg_config)
    file(WRITE "${WORK_DIR}/version.cpp"
      "#include <cstdio>\n#include <cubist/machine/find_machine.hpp>\n#include <cubist/version.hpp>\n"
      "int main() { std::printf(\"%d.%d.%d\\n%s\\n\", CUBIST_VERSION_MAJOR, CUBIST_VERSION_MINOR, CUBIST_VERSION_PATCH,\n"
      "  cubist::find_machine(\"of_this_prefix\").c_str()); }\n")
    set(modules cubist)
    if(MPI)
      list(APPEND modules cubist-mpi)
    endif()
    if(NCCL)
      list(APPEND modules cubist-nccl)
    endif()
    set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
    if(pblas)
      list(APPEND modules cubist-pblas)
      execute_process(COMMAND "${pkg_config}" --variable=libdir cubist-pblas OUTPUT_VARIABLE libdir
        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      set(ENV{LD_LIBRARY_PATH} "${libdir}:$ENV{LD_LIBRARY_PATH}")
    endif()
    foreach(module IN LISTS modules)
      execute_process(COMMAND "${pkg_config}" --modversion ${module} OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
      execute_process(COMMAND "${pkg_config}" --cflags --libs ${module} OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
      separate_arguments(flags UNIX_COMMAND "${flags}")
      execute_process(COMMAND "${COMPILER}" -std=c++20 "${WORK_DIR}/version.cpp" ${flags} -o "${WORK_DIR}/version" COMMAND_ERROR_IS_FATAL ANY)
      execute_process(COMMAND "${WORK_DIR}/version" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
      if(NOT printed STREQUAL "${version}${machine}\n")
        message(FATAL_ERROR "${module}.pc is of version ${version} and has ${machine}, the header ${printed}")
      endif()
    endforeach()
  endif()
  # The README's project and program.
  file(COPY "${CUBIST_SOURCE_DIR}/examples/my_program/" DESTINATION "${WORK_DIR}/readme")
  if(NOT MPI)
    file(READ "${WORK_DIR}/readme/CMakeLists.txt" project)
    string(REPLACE "core mpi" "core" project "${project}")
    string(REPLACE "cubist::mpi)" "cubist::cubist)" project "${project}")
    file(WRITE "${WORK_DIR}/readme/CMakeLists.txt" "${project}")
  endif()
  set(program readme/my_program)
  set(how "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}" "-DREADME_PROJECT=${WORK_DIR}/readme")
else()
  # A repository of what a consumer's project needs, as it is here, with a tag.
  set(repository "${WORK_DIR}/repository")
  file(COPY "${CUBIST_SOURCE_DIR}/CMakeLists.txt" "${CUBIST_SOURCE_DIR}/cmake" "${CUBIST_SOURCE_DIR}/include"
    "${CUBIST_SOURCE_DIR}/LICENSE" DESTINATION "${repository}")
  set(git git -C "${repository}" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false)
  foreach(arguments IN ITEMS "init;--quiet" "add;." "commit;--quiet;-m;all" "tag;v0")
    execute_process(COMMAND ${git} ${arguments} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  set(program consumer)
  set(how "-DCUBIST_REPOSITORY=file://${repository}" "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}")
endif()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCUBIST_MPI=${MPI}"
    "-DCUBIST_NCCL=${NCCL}" "-DCUBIST_PBLAS=${pblas}" ${how}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/build/${program}" COMMAND_ERROR_IS_FATAL ANY)
if(MPI)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
  execute_process(COMMAND "${WORK_DIR}/build/mpi_consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
if(pblas)
  execute_process(COMMAND "${WORK_DIR}/build/pblas_consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NCCL)
  execute_process(COMMAND "${WORK_DIR}/build/nccl_consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
