# Run with -P; see ../package.cmake. Checks that the Debian packages say what they need, contain their component and nothing of
# another, and name the version of cubist/version.hpp. packaging/debian/check installs them.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")
execute_process(COMMAND "${CPACK}" --config "${CUBIST_BINARY_DIR}/CPackConfig.cmake" -B "${WORK_DIR}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# check_package(<name> FIELDS <regular expression>... PATHS <path below /usr>... ABSENT <part of a path>...)
function(check_package name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FIELDS;PATHS;ABSENT")
  file(GLOB package "${WORK_DIR}/${name}_${VERSION}_*.deb")
  list(LENGTH package count)
  if(NOT count EQUAL 1)
    file(GLOB made RELATIVE "${WORK_DIR}" "${WORK_DIR}/*.deb")
    message(FATAL_ERROR "no package ${name} of version ${VERSION} among ${made}")
  endif()
  execute_process(COMMAND dpkg-deb --field "${package}" OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND dpkg-deb --contents "${package}" OUTPUT_VARIABLE content COMMAND_ERROR_IS_FATAL ANY)
  foreach(field IN LISTS arg_FIELDS)
    if(NOT fields MATCHES "${field}")
      message(FATAL_ERROR "${name} does not say '${field}', but:\n${fields}")
    endif()
  endforeach()
  foreach(path IN LISTS arg_PATHS)
    if(NOT content MATCHES " \\./usr/${path}\n")
      message(FATAL_ERROR "${name} does not have ${path}")
    endif()
  endforeach()
  foreach(path IN LISTS arg_ABSENT)
    if(content MATCHES "/${path}")
      message(FATAL_ERROR "${name} has ${path}, which is not its own")
    endif()
  endforeach()
endfunction()

check_package(libcubist-dev
  FIELDS "Architecture: all" "Depends: .*libopenblas-pthread-dev" "Depends: .*libxtensor-blas-dev"
  PATHS include/cubist/cubist.hpp include/cubist/version.hpp share/cmake/cubist/cubistConfig.cmake share/pkgconfig/cubist.pc
    share/cubist/machines/dgx_h100.json share/doc/libcubist-dev/copyright
  ABSENT backend/mpi.hpp comm/mpi comm/nccl engine/cuda cubist-mpi tests)
if(MPI)
  check_package(libcubist-mpi-dev
    FIELDS "Depends: libcubist-dev \\(= ${VERSION}\\), libboost-mpi-dev, libopenmpi-dev"
    PATHS include/cubist/backend/mpi.hpp share/cmake/cubist/cubist-mpi-targets.cmake share/pkgconfig/cubist-mpi.pc
    ABSENT cubist.hpp comm/nccl cubistConfig)
endif()
if(NCCL)
  check_package(libcubist-nccl-dev
    FIELDS "Depends: libcubist-dev \\(= ${VERSION}\\)"
    PATHS include/cubist/backend/nccl.hpp share/cmake/cubist/cubist-nccl-targets.cmake share/pkgconfig/cubist-nccl.pc
    ABSENT cubist.hpp comm/mpi cubistConfig)
endif()
if(PLANNER)
  check_package(cubist-plan
    FIELDS "Depends: .*libcubist-dev \\(= ${VERSION}\\)" "Section: devel"
    PATHS bin/cubist_plan share/doc/cubist-plan/copyright
    ABSENT include cubistConfig)
endif()
if(PBLAS)
  check_package(libcubist-pblas
    FIELDS "Section: libs" "Depends: .*libboost-mpi[0-9.]+ .*libopenblas0" "Depends: .*libopenmpi"
    PATHS "lib/([^/]+/)?libcubist_pblas\\.so\\.${VERSION}" share/doc/libcubist-pblas/copyright
      share/cmake/cubist/cubist-pblas-targets.cmake share/pkgconfig/cubist-pblas.pc
    ABSENT include cubistConfig)
endif()
