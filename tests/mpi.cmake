# The tests that say TestBackend, built once more with MPI as that backend, and those of MPI alone: cubist_<layer>_mpi_tests.
add_library(cubist_mpi_test_main OBJECT EXCLUDE_FROM_ALL mpi_main.cpp)
target_compile_features(cubist_mpi_test_main PUBLIC cxx_std_20)
target_compile_definitions(cubist_mpi_test_main PUBLIC CUBIST_TEST_MPI)
target_include_directories(cubist_mpi_test_main PUBLIC support)
target_link_libraries(cubist_mpi_test_main PUBLIC cubist::mpi Catch2::Catch2 PRIVATE cubist_warnings)

set(mpi_layers)
foreach(source IN LISTS test_sources mpi_only_sources)
  file(STRINGS ${source} on_any_backend REGEX "TestBackend" LIMIT_COUNT 1)
  if(on_any_backend OR source IN_LIST mpi_only_sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    string(REGEX MATCH "^[^/]+" layer "${source}")
    list(APPEND mpi_layers ${layer})
    list(APPEND ${layer}_mpi_sources ${source})
  endif()
endforeach()
list(REMOVE_DUPLICATES mpi_layers)

set(process_counts 1 2 4 6 8)
set(tested_layers ${mpi_layers})
set(mpi_environment ${CUBIST_MPI_ENVIRONMENT})
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*thread")
  set(tested_layers) # MPI is not built with the sanitizer, which sees races in it
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
  # LeakSanitizer crashes on where it believes the thread-local memory of Open MPI's plugins to be.
  set(process_counts 4)
  set(tested_layers comm matmul) # the rest is checked on threads
  list(APPEND mpi_environment
    ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/lsan.supp:print_suppressions=0")
endif()

foreach(layer IN LISTS mpi_layers)
  if(NOT layer IN_LIST tested_layers)
    continue()
  endif()
  set(target cubist_${layer}_mpi_tests)
  add_executable(${target} ${${layer}_mpi_sources})
  target_link_libraries(${target} PRIVATE cubist_mpi_test_main cubist_warnings)
  set(counts ${process_counts})
  if(layer STREQUAL scheme AND 8 IN_LIST counts)
    list(APPEND counts 12) # for Grid3D on 2 x 3 x 2
  endif()
  # A job runs whatever needs its processes or fewer; worlds of more sizes are for the layers that make worlds.
  if(CUBIST_QUICK_TESTS)
    list(REMOVE_ITEM counts 6)
    if(NOT layer MATCHES "^(backend|comm|mesh)$")
      list(REMOVE_ITEM counts 1 2)
    endif()
  endif()
  foreach(n IN LISTS counts)
    set(name "mpi: ${layer} on ${n} ranks")
    set(cases)
    if(n EQUAL 12 AND CUBIST_QUICK_TESTS)
      set(cases "*Grid3D*,*three extents*") # what has meshes of 12; the other schemes have them on threads
    endif()
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:${target}> ${cases})
    set_tests_properties(${name} PROPERTIES
      LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_environment}")
  endforeach()
endforeach()
