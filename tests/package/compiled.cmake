# Run with -P; see ../package.cmake. Builds and installs the compiled library with one scheme, and programs that use it.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
set(compiler "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS} -O0" -G "${GENERATOR}")
set(build "${CMAKE_COMMAND}" --build)
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CUBIST_SOURCE_DIR}" -B "${WORK_DIR}/library" ${compiler}
    -DCUBIST_BUILD_LIBRARY=ON -DCUBIST_LIBRARY_SCHEMES=Summa2D "-DCUBIST_WITH_MPI=${MPI}" -DCUBIST_WITH_NCCL=OFF
    -DCUBIST_BUILD_TESTS=OFF -DCUBIST_BUILD_EXAMPLES=OFF -DCUBIST_BUILD_BENCH=OFF -DCUBIST_BUILD_TOOLS=OFF
    -DCUBIST_BUILD_GPU=OFF -DCUBIST_VERIFY_HEADERS=OFF
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${build} "${WORK_DIR}/library" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK_DIR}/library" --prefix "${prefix}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/compiled" -B "${WORK_DIR}/build" ${compiler}
    "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}" "-DCUBIST_MPI=${MPI}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${build} "${WORK_DIR}/build" COMMAND_ERROR_IS_FATAL ANY)
foreach(program IN ITEMS from_headers from_library)
  execute_process(COMMAND "${WORK_DIR}/build/${program}" OUTPUT_VARIABLE ${program} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(NOT from_headers STREQUAL from_library OR NOT from_library MATCHES "0x1")
  message(FATAL_ERROR "losses of the headers:\n${from_headers}and of the library:\n${from_library}")
endif()
if(MPI)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
  execute_process(COMMAND "${WORK_DIR}/build/mpi_from_library" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()

# pkg-config names the library and its macro.
find_program(pkg_config NAMES pkgconf pkg-config)
if(pkg_config)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
  execute_process(COMMAND "${pkg_config}" --cflags --libs cubist-compiled OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  # Links the program's object with these flags; another source checks that they have the folder and the macro.
  file(WRITE "${WORK_DIR}/flags.cpp" "#include <cubist/core/compiled_schemes.hpp>\n#ifndef CUBIST_COMPILED\n#error no macro\n#endif\n")
  execute_process(COMMAND "${COMPILER}" -std=c++20 "${WORK_DIR}/flags.cpp" "${WORK_DIR}/build/CMakeFiles/from_library.dir/main.cpp.o"
      ${flags} -o "${WORK_DIR}/by_pkg_config" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK_DIR}/by_pkg_config" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed STREQUAL from_library)
    message(FATAL_ERROR "losses by pkg-config:\n${printed}and by CMake:\n${from_library}")
  endif()
endif()

# Programs do not compile against a library of another version.
file(WRITE "${WORK_DIR}/old.cpp" "#include <cubist/cubist.hpp>\n")
execute_process(COMMAND "${COMPILER}" -std=c++20 -fsyntax-only -DCUBIST_COMPILED=1 "-I${prefix}/include" "${WORK_DIR}/old.cpp"
  RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0 OR NOT errors MATCHES "a different version")
  message(FATAL_ERROR "a library of version 0.0.1 is taken:\n${errors}")
endif()
