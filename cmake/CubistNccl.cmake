# Finds CUDA's run time and NCCL: sets CUBIST_NCCL_FOUND, and defines CUDA::cudart and Nccl::nccl if it found both.
# NCCL ships no CMake package; it is beside CUDA, or where NCCL_LIBRARY and NCCL_INCLUDE_DIR say.
find_package(CUDAToolkit QUIET)
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(NCCL_LIBRARY NCCL_INCLUDE_DIR)

if(TARGET CUDA::cudart AND NCCL_LIBRARY AND NCCL_INCLUDE_DIR)
  set(CUBIST_NCCL_FOUND TRUE)
  if(NOT TARGET Nccl::nccl)
    add_library(Nccl::nccl UNKNOWN IMPORTED)
    set_target_properties(Nccl::nccl PROPERTIES
      IMPORTED_LOCATION "${NCCL_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
  endif()
else()
  set(CUBIST_NCCL_FOUND FALSE)
endif()
