# Tests that launch warns of BLAS kernels older than the processor: once, on one rank, and not if the kernels are good or
# `CUBIST_BLAS_WARNING` switches the warning off.
add_executable(cubist_blas_warning blas_warning/kernels.cpp)
target_link_libraries(cubist_blas_warning PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_blas_warning cubist_test_precompiled)

function(cubist_add_blas_warning_test what kernels requested times)
  add_test(NAME "blas warning: ${what}" COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/blas_warning/check.sh" ${kernels} ${requested} ${times} ${ARGN})
  set_tests_properties("blas warning: ${what}" PROPERTIES LABELS threads TIMEOUT 60 SKIP_RETURN_CODE 77)
endfunction()

set(threads $<TARGET_FILE:cubist_blas_warning>)
cubist_add_blas_warning_test("of old kernels" Prescott on 1 ${threads})
cubist_add_blas_warning_test("none of good ones" Haswell on 0 ${threads})
cubist_add_blas_warning_test("none if switched off" Prescott off 0 ${threads})

if(TARGET cubist_mpi AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_executable(cubist_blas_warning_mpi blas_warning/kernels.cpp)
  target_link_libraries(cubist_blas_warning_mpi PRIVATE cubist::mpi cubist_warnings)
  cubist_use_precompiled(cubist_blas_warning_mpi cubist_test_precompiled)
  target_compile_definitions(cubist_blas_warning_mpi PRIVATE CUBIST_WITH_MPI)
  cubist_add_blas_warning_test("by one rank of a job" Prescott on 1
    ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:cubist_blas_warning_mpi>)
  set_tests_properties("blas warning: by one rank of a job" PROPERTIES LABELS mpi PROCESSORS 2 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
endif()
