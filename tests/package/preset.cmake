# Run with -P in cubist's folder; see ../package.cmake. As with Nix, the folders are absolute, and not all are below the prefix.
cmake_minimum_required(VERSION 3.24)
# The folder is outside the build folder, as CMake refuses absolute folders of headers below the source folder.
execute_process(COMMAND mktemp -d OUTPUT_VARIABLE WORK_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(prefix "${WORK_DIR}/prefix")
execute_process(
  COMMAND "${CMAKE_COMMAND}" --preset install -B "${WORK_DIR}/build" -DCUBIST_WITH_MPI=OFF -DCUBIST_WITH_NCCL=OFF
    "-DCMAKE_INSTALL_PREFIX=${prefix}" "-DCMAKE_INSTALL_INCLUDEDIR=${WORK_DIR}/dev/include" "-DCMAKE_INSTALL_LIBDIR=${WORK_DIR}/dev/lib"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK_DIR}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(file IN ITEMS dev/include/cubist/cubist.hpp prefix/share/cmake/cubist/cubistConfig.cmake)
  if(NOT EXISTS "${WORK_DIR}/${file}")
    message(FATAL_ERROR "the preset install does not install ${file}")
  endif()
endforeach()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE objects "${WORK_DIR}/build/*.o")
if(objects)
  message(FATAL_ERROR "the preset install compiles ${objects}")
endif()

# A program finds the headers and the installation's machines, by CMake and by pkg-config.
set(machine "${prefix}/share/cubist/machines/of_this_prefix.json")
file(WRITE "${machine}" "{}")
file(WRITE "${WORK_DIR}/consumer/find.cpp" "#include <cstdio>\n#include <cubist/machine/find_machine.hpp>\n"
  "int main() { std::puts(cubist::find_machine(\"of_this_prefix\").c_str()); }\n")
file(WRITE "${WORK_DIR}/consumer/CMakeLists.txt" "cmake_minimum_required(VERSION 3.24)\nproject(consumer LANGUAGES CXX)\n"
  "find_package(cubist REQUIRED COMPONENTS \${COMPONENTS})\n"
  "add_executable(find find.cpp)\ntarget_link_libraries(find PRIVATE cubist::cubist)\n")
set(configure "${CMAKE_COMMAND}" -S "${WORK_DIR}/consumer" -B "${WORK_DIR}/consumer/build" "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}")
execute_process(COMMAND ${configure} -DCOMPONENTS=core OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/consumer/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(programs consumer/build/find)
find_program(pkg_config NAMES pkgconf pkg-config)
if(pkg_config)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
  execute_process(COMMAND "${pkg_config}" --cflags --libs cubist OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  execute_process(COMMAND "${COMPILER}" -std=c++20 "${WORK_DIR}/consumer/find.cpp" ${flags} -o "${WORK_DIR}/find" COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND programs find)
endif()
foreach(program IN LISTS programs)
  execute_process(COMMAND "${WORK_DIR}/${program}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed STREQUAL "${machine}\n")
    message(FATAL_ERROR "${program} finds ${printed}, not ${machine}")
  endif()
endforeach()

# The error names components that the installation lacks.
foreach(components IN ITEMS compiled "core;mpi" abacus)
  execute_process(COMMAND ${configure} "-DCOMPONENTS=${components}" RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
  list(POP_BACK components component)
  if(result EQUAL 0 OR NOT errors MATCHES "got the component ${component}, which this installation of cubist lacks.*\\(core\\)")
    message(FATAL_ERROR "the component ${component} is not named:\n${errors}")
  endif()
endforeach()
file(REMOVE_RECURSE "${WORK_DIR}")
