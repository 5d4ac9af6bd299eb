# The GPU's engine, compiled by nvcc for the architectures in CUBIST_CUDA_ARCHITECTURES, and compared with the host's where
# there is a GPU.
if(NOT CMAKE_CUDA_COMPILER)
  return()
endif()
# The tests have their -O1, and nvcc warns of a second choice.
string(REPLACE "-O1" "" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")

# cubist_cuda_test(<test> <program> <source> [LONG])
function(cubist_cuda_test test program)
  cubist_cuda_program(${program} ${ARGN})
  add_test(NAME "cuda: ${test}" COMMAND ${program})
  set_tests_properties("cuda: ${test}" PROPERTIES
    LABELS nccl TIMEOUT 300 SKIP_REGULAR_EXPRESSION "no GPU")
endfunction()

cubist_cuda_test("the engine" cubist_cuda_engine cuda/cuda_engine.cu)
cubist_cuda_test("the backend" cubist_cuda_nccl cuda/nccl_backend.cu LONG)

# Ranks that are processes, which share GPUs where they are more: the one way to test several ranks on one GPU.
if(TARGET cubist_mpi)
  foreach(ranks IN ITEMS 4 8)
    set(name "cuda: the backend on ${ranks} processes")
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:cubist_cuda_nccl>)
    set_tests_properties(${name} PROPERTIES
      LABELS nccl TIMEOUT 600 PROCESSORS 2 SKIP_REGULAR_EXPRESSION "no GPU" PASS_REGULAR_EXPRESSION "[1-9][0-9]* checks, 0 failed"
      ENVIRONMENT "${mpi_environment}")
  endforeach()
endif()
