# An installed cubist's component nccl: cubist::nccl.
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
include(CubistNccl)
list(POP_FRONT CMAKE_MODULE_PATH)

set(cubist_nccl_FOUND ${CUBIST_NCCL_FOUND})
set(cubist_nccl_NEEDS "CUDA and NCCL")
if(CUBIST_NCCL_FOUND)
  include("${CMAKE_CURRENT_LIST_DIR}/cubist-nccl-targets.cmake")
endif()
