# The GPU's engine, compiled by nvcc for the architectures in CUBIST_CUDA_ARCHITECTURES, and compared with the host's where
# there is a GPU.
set(architectures 80 90)
if(CUBIST_QUICK_TESTS)
  set(architectures 90)
endif()
set(CUBIST_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "What nvcc compiles cubist's tests for")
set(CMAKE_CUDA_ARCHITECTURES ${CUBIST_CUDA_ARCHITECTURES})
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  return()
endif()
enable_language(CUDA)
# The tests have their -O1, and nvcc warns of a second choice.
string(REPLACE "-O3" "" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")

# cubist_cuda_test(<test> <program> <source>)
function(cubist_cuda_test test program source)
  add_executable(${program} ${source})
  # CUDA::cudart is the shared one; CMake would link the static one as well.
  set_target_properties(${program} PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
  target_compile_options(${program} PRIVATE
    -Xcompiler=-Wall,-Wextra,-Wshadow --Werror=all-warnings -Xcompiler=-Werror)
  target_link_libraries(${program} PRIVATE cubist::nccl)
  add_test(NAME "cuda: ${test}" COMMAND ${program})
  set_tests_properties("cuda: ${test}" PROPERTIES
    LABELS nccl TIMEOUT 300 SKIP_REGULAR_EXPRESSION "no GPU")
endfunction()

cubist_cuda_test("the engine" cubist_cuda_engine cuda/cuda_engine.cu)
# Long to compile, so for one architecture, the newest.
cubist_cuda_test("the backend" cubist_cuda_nccl cuda/nccl_backend.cu)
list(GET CUBIST_CUDA_ARCHITECTURES -1 newest)
set_target_properties(cubist_cuda_nccl PROPERTIES CUDA_ARCHITECTURES ${newest})
