# Builds cubist_<layer>_mpi_tests: the tests that say TestBackend, once more with MPI as that backend, and those of MPI alone.
add_library(cubist_mpi_test_main OBJECT EXCLUDE_FROM_ALL mpi_main.cpp)
target_compile_features(cubist_mpi_test_main PUBLIC cxx_std_20)
target_compile_definitions(cubist_mpi_test_main PUBLIC CUBIST_TEST_MPI CUBIST_DIGITS_CSV="${CUBIST_DIGITS_CSV}"
  CUBIST_TRANSFORMER_DATA="${CUBIST_TRANSFORMER_DATA}"
  $<$<BOOL:${CUBIST_QUICK_TESTS}>:CUBIST_QUICK_TESTS>)
target_include_directories(cubist_mpi_test_main PUBLIC support)
target_link_libraries(cubist_mpi_test_main PUBLIC cubist::mpi Catch2::Catch2 PRIVATE cubist_warnings)

foreach(source IN LISTS test_sources mpi_only_sources)
  file(STRINGS ${source} on_any_backend REGEX "TestBackend" LIMIT_COUNT 1)
  if(on_any_backend OR source IN_LIST mpi_only_sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    string(REGEX MATCH "^[^/]+" layer "${source}")
    list(APPEND ${layer}_mpi_sources ${source})
  endif()
endforeach()

# Layers whose templates depend on the backend, or whose tests need processes. Tests that create communicators run on all
# these numbers of processes, and the others on as many as their meshes have.
set(tested_layers backend comm mesh matrix gradients matmul scheme foreign nn io training support testing trace pblas)
set(counts_backend 1 2 4 8)
set(counts_comm 1 2 4 8)
set(counts_mesh 1 4 8)
set(counts_matmul 4 8)
set(counts_scheme 4 8 12) # 12 for Grid3D on 2 x 3 x 2
set(counts_nn 8)
set(counts_pblas 1 4 6)
set(counts_training 8)
foreach(layer IN ITEMS matrix gradients foreign io support testing trace)
  set(counts_${layer} 4)
endforeach()
set(mpi_environment ${CUBIST_MPI_ENVIRONMENT})
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*thread")
  set(tested_layers) # MPI is not built with the sanitizer, which would see races in it
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
  set(tested_layers comm matmul) # threads check the rest
  set(counts_comm 4)
  set(counts_matmul 4)
  # LeakSanitizer crashes where it believes the thread-local memory of Open MPI's plugins to be.
  list(APPEND mpi_environment
    ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/lsan.supp:print_suppressions=0")
elseif(NOT CUBIST_QUICK_TESTS)
  foreach(layer IN LISTS tested_layers)
    list(APPEND counts_${layer} 1 2 4 6 8)
    list(REMOVE_DUPLICATES counts_${layer})
  endforeach()
endif()

foreach(layer IN LISTS tested_layers)
  set(target cubist_${layer}_mpi_tests)
  add_executable(${target} ${${layer}_mpi_sources})
  target_link_libraries(${target} PRIVATE cubist_mpi_test_main cubist_warnings)
  if(layer IN_LIST network_layers)
    cubist_use_precompiled(${target} cubist_network_precompiled)
  else()
    cubist_use_precompiled(${target} cubist_test_precompiled)
  endif()
  if(layer MATCHES "^(nn|training)$")
    cubist_use_loops(${target})
  elseif(layer STREQUAL pblas)
    target_link_libraries(${target} PRIVATE cubist_pblas_objects)
  endif()
  foreach(n IN LISTS counts_${layer})
    set(name "mpi: ${layer} on ${n} ranks")
    set(cases)
    if(n EQUAL 12 AND CUBIST_QUICK_TESTS)
      set(cases "*Grid3D*") # cases with meshes of 12; the other schemes have such meshes on threads
    endif()
    set(processors 2)
    if(layer MATCHES "^(backend|comm|testing)$" AND n LESS 8)
      set(processors 1) # they wait more than they compute
    endif()
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:${target}> ${cases})
    set_tests_properties(${name} PROPERTIES
      LABELS mpi TIMEOUT 300 PROCESSORS ${processors} ENVIRONMENT "${mpi_environment};CUBIST_TEST_SECONDS=280")
  endforeach()
endforeach()
if(TARGET cubist_support_mpi_tests)
  add_test(NAME "mpi: a test that runs out of time names its case" COMMAND
    ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:cubist_support_mpi_tests> "a case that waits for ever")
  set_tests_properties("mpi: a test that runs out of time names its case" PROPERTIES
    LABELS mpi TIMEOUT 60 ENVIRONMENT "${mpi_environment};CUBIST_TEST_SECONDS=1"
    PASS_REGULAR_EXPRESSION "process 0: the time limit of 1 s is over while the test case 'a case that waits for ever' runs")
endif()
