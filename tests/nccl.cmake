# Builds the tests of NCCL, and the conformance suite of communicators, with mocks of NCCL's and CUDA's libraries
# (nccl/fake.hpp), of which only the headers are used. They need no GPU.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
  list(APPEND nccl_sources comm/communicator_test.cpp) # slow to compile, and it has no errors, whose paths free memory
endif()
list(APPEND nccl_sources comm/wait_time_test.cpp)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  # Here kernels run in the test's own thread, which has nothing to race with; those of a graph have streams.
  list(FILTER nccl_sources EXCLUDE REGEX "^engine/cuda/(attention_kernels|chunks|functions|groups|operations|rows|tiling)_test\\.cpp$")
endif()
add_executable(cubist_nccl_tests ${nccl_sources} nccl/fake_cuda.cpp nccl/fake_nccl.cpp nccl/fake_nvtx.cpp)
set_source_files_properties(nccl/fake_cuda.cpp nccl/fake_nccl.cpp nccl/fake_nvtx.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_include_directories(cubist_nccl_tests SYSTEM PRIVATE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_include_directories(cubist_nccl_tests PRIVATE nccl cuda)
target_compile_definitions(cubist_nccl_tests PRIVATE CUBIST_TEST_NCCL CUBIST_TRANSFORMER_DATA="${CUBIST_TRANSFORMER_DATA}"
  $<$<BOOL:${CUBIST_QUICK_TESTS}>:CUBIST_QUICK_TESTS>)
target_link_libraries(cubist_nccl_tests PRIVATE ${CMAKE_DL_LIBS} cubist::cubist cubist_test_main cubist_warnings)
cubist_use_precompiled(cubist_nccl_tests cubist_test_precompiled)
cubist_use_loops(cubist_nccl_tests)
cubist_test_cases(cubist_nccl_tests nccl. nccl)

# Builds the conformance suite with the libraries themselves, and a process for each rank; two of them may share a GPU:
#   cmake --build … --target cubist_nccl_mpi_tests && mpiexec -n 2 tests/cubist_nccl_mpi_tests
if(TARGET cubist_mpi)
  add_executable(cubist_nccl_mpi_tests EXCLUDE_FROM_ALL comm/communicator_test.cpp)
  target_include_directories(cubist_nccl_mpi_tests PRIVATE nccl)
  target_compile_definitions(cubist_nccl_mpi_tests PRIVATE CUBIST_TEST_NCCL)
  target_link_libraries(cubist_nccl_mpi_tests PRIVATE cubist_mpi_test_main cubist::nccl cubist_warnings)
endif()
