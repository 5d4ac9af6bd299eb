# Compares libcubist_pblas with ScaLAPACK: on all grids of a number of processes, both get the same calls.
if(NOT TARGET cubist_pblas OR NOT CUBIST_SCALAPACK_LIBRARY MATCHES "\\.so")
  return()
endif()
add_executable(cubist_pblas_laws pblas_library/laws.cpp)
target_compile_features(cubist_pblas_laws PRIVATE cxx_std_20)
target_compile_definitions(cubist_pblas_laws PRIVATE CUBIST_SCALAPACK_LIBRARY="${CUBIST_SCALAPACK_LIBRARY}")
# The program looks symbols up by name, so some linkers would leave the library out.
target_link_options(cubist_pblas_laws PRIVATE LINKER:--no-as-needed)
# The order matters: the library's routines must come before ScaLAPACK's.
target_link_libraries(cubist_pblas_laws PRIVATE
  cubist_pblas "${CUBIST_SCALAPACK_LIBRARY}" MPI::MPI_CXX ${CMAKE_DL_LIBS} cubist_warnings)
set_target_properties(cubist_pblas_laws PROPERTIES ENABLE_EXPORTS ON)
foreach(n IN ITEMS 1 4 6)
  add_test(NAME "pblas: the laws of ScaLAPACK on ${n} processes" COMMAND
    ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:cubist_pblas_laws>)
  set_tests_properties("pblas: the laws of ScaLAPACK on ${n} processes" PROPERTIES
    LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
endforeach()
add_test(NAME "pblas: a C that has elements of A ends the job" COMMAND
  ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:cubist_pblas_laws> overlap)
set_tests_properties("pblas: a C that has elements of A ends the job" PROPERTIES
  LABELS mpi TIMEOUT 60 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}"
  PASS_REGULAR_EXPRESSION "cubist: PDGEMM on process [^\n]*got a C that shares elements with A")
add_test(NAME "pblas: a call that only scales C says so" COMMAND
  ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 1 $<TARGET_FILE:cubist_pblas_laws> scale)
set_tests_properties("pblas: a call that only scales C says so" PROPERTIES
  LABELS mpi TIMEOUT 60 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT};CUBIST_PBLAS=verbose"
  PASS_REGULAR_EXPRESSION "cubist: PDGEMM NN 4 x 4 x 4 on 1 x 1 processes: only scales C, ")
add_executable(cubist_pblas_program "${PROJECT_SOURCE_DIR}/examples/blacs/multiply.cpp")
target_link_libraries(cubist_pblas_program PRIVATE "${CUBIST_SCALAPACK_LIBRARY}" MPI::MPI_CXX)
add_test(NAME "pblas: the library in some processes only" COMMAND
  "${CMAKE_CURRENT_SOURCE_DIR}/pblas_library/some_processes.sh" "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:cubist_pblas_program>
  $<TARGET_FILE:cubist_pblas>)
set_tests_properties("pblas: the library in some processes only" PROPERTIES
  LABELS mpi TIMEOUT 240 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
add_executable(cubist_pblas_integers64 pblas_library/integers64.cpp
  "${PROJECT_SOURCE_DIR}/pblas/agreement.cpp" "${PROJECT_SOURCE_DIR}/pblas/blacs.cpp")
# Its first file defines functions that the others declare weak.
set_target_properties(cubist_pblas_integers64 PROPERTIES UNITY_BUILD OFF)
target_include_directories(cubist_pblas_integers64 PRIVATE "${PROJECT_SOURCE_DIR}/pblas")
target_compile_definitions(cubist_pblas_integers64 PRIVATE CUBIST_PBLAS_ILP64)
target_link_libraries(cubist_pblas_integers64 PRIVATE cubist::mpi ${CMAKE_DL_LIBS} cubist_warnings)
add_test(NAME "pblas: integers of 64 bits" COMMAND
  ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:cubist_pblas_integers64>)
set_tests_properties("pblas: integers of 64 bits" PROPERTIES
  LABELS mpi TIMEOUT 60 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
# Between hosts products are converted to a scheme, and small ones are left to ScaLAPACK, unless the setting is all.
cubist_add_multihost_test("the laws of ScaLAPACK" cubist_pblas_laws 2 2)
set_tests_properties("multihost: the laws of ScaLAPACK on 4 x 2 ranks" PROPERTIES ENVIRONMENT "CUBIST_PBLAS=all")
cubist_add_multihost_test("small and new products" cubist_pblas_laws 1 repeated)
set_tests_properties("multihost: small and new products on 4 x 1 ranks" PROPERTIES
  ENVIRONMENT "CUBIST_PBLAS=verbose"
  PASS_REGULAR_EXPRESSION "cubist: PDGEMM NN 400 x 400 x 400 on 1 x 4 processes: "
  FAIL_REGULAR_EXPRESSION "PDGEMM NN 16;PDGEMM NN 400.*PDGEMM NN 400;wrong")
