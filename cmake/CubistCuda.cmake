# Enables CUDA for cubist's own programs where there is a compiler, and sets the architectures. CMake wants this in a folder
# above all of these programs.
set(architectures 80 90)
if(CUBIST_QUICK_TESTS)
  set(architectures 90-virtual) # PTX alone: programs that quick tests compile run without a GPU
endif()
set(CUBIST_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Architectures that nvcc compiles cubist's own programs for; slow ones are compiled for the last only")
set(CMAKE_CUDA_ARCHITECTURES ${CUBIST_CUDA_ARCHITECTURES})
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  # The programs spend their time in cuBLAS and in kernels, so -O1 is enough, and compiles faster than CMake's default, -O3.
  set(optimization -O1)
  if(CUBIST_QUICK_TESTS)
    set(optimization -O0)
  endif()
  string(REPLACE "-O3" "${optimization}" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
endif()

# cubist_cuda_options(<target> [LONG]): sets how nvcc compiles a target: with LONG, for one architecture only.
function(cubist_cuda_options target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG" "" "")
  # CUDA::cudart is the shared run time; CMake would link the static one as well.
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
  if(arg_LONG)
    list(GET CUBIST_CUDA_ARCHITECTURES -1 newest)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES ${newest})
  endif()
  # g++ 12 thinks that the members of a moved variant are uninitialized.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-maybe-uninitialized;--Werror=all-warnings;-Xcompiler=-Werror>")
  if(CUBIST_QUICK_TESTS)
    target_compile_definitions(${target} PRIVATE CUBIST_QUICK_TESTS CUBIST_QUICK_KERNELS)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/examples")
  target_link_libraries(${target} PRIVATE cubist::nccl)
endfunction()

# cubist_cuda_program(<program> <source>... [LONG]): adds a CUDA program that starts ranks (examples/gpus.hpp).
function(cubist_cuda_program program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG" "" "")
  add_executable(${program} ${arg_UNPARSED_ARGUMENTS})
  if(arg_LONG)
    cubist_cuda_options(${program} LONG)
  else()
    cubist_cuda_options(${program})
  endif()
  # The code that starts ranks is compiled once. Where MPI is found, ranks can also be MPI processes.
  if(NOT TARGET cubist_gpus)
    add_library(cubist_gpus OBJECT "${PROJECT_SOURCE_DIR}/examples/gpus.cpp")
    target_link_libraries(cubist_gpus PUBLIC cubist::nccl PRIVATE cubist_warnings)
    cubist_use_precompiled(cubist_gpus cubist_program_precompiled)
    if(TARGET cubist_mpi)
      target_link_libraries(cubist_gpus PUBLIC cubist::mpi)
      target_compile_definitions(cubist_gpus PRIVATE CUBIST_EXAMPLES_WITH_MPI)
    endif()
  endif()
  target_link_libraries(${program} PRIVATE cubist_gpus)
endfunction()
