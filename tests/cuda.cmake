# The GPU's engine, compiled by nvcc for the architectures in CUBIST_CUDA_ARCHITECTURES, and compared with the host's where
# there is a GPU.
set(CUBIST_CUDA_ARCHITECTURES "80;90" CACHE STRING "What nvcc compiles cubist's tests for")
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

add_executable(cubist_cuda_engine cuda/cuda_engine.cu)
# CUDA::cudart is the shared one; CMake would link the static one as well.
set_target_properties(cubist_cuda_engine PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
target_compile_options(cubist_cuda_engine PRIVATE
  -Xcompiler=-Wall,-Wextra,-Wshadow --Werror=all-warnings -Xcompiler=-Werror)
target_link_libraries(cubist_cuda_engine PRIVATE cubist::nccl)
add_test(NAME "cuda: the engine" COMMAND cubist_cuda_engine)
set_tests_properties("cuda: the engine" PROPERTIES
  LABELS nccl TIMEOUT 300 SKIP_REGULAR_EXPRESSION "no GPU")
