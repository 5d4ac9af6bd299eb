# Trains under faults; tests/soak/soak.cpp says how.
set(soak_faults 500)
set(soak_faults_mpi 20)
if(CUBIST_QUICK_TESTS)
  set(soak_faults 60)
  set(soak_faults_mpi 4)
endif()
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(soak_faults 30)
endif()

add_executable(cubist_soak soak/soak.cpp)
target_link_libraries(cubist_soak PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_soak cubist_network_precompiled)
add_test(NAME "soak: ${soak_faults} faults on threads" COMMAND cubist_soak ${soak_faults})
set_tests_properties("soak: ${soak_faults} faults on threads" PROPERTIES LABELS threads TIMEOUT 600)

if(TARGET cubist_mpi AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_executable(cubist_soak_mpi soak/soak.cpp)
  target_link_libraries(cubist_soak_mpi PRIVATE cubist::mpi cubist_warnings)
  cubist_use_precompiled(cubist_soak_mpi cubist_network_precompiled)
  target_compile_definitions(cubist_soak_mpi PRIVATE CUBIST_TEST_MPI)
  add_test(NAME "soak: ${soak_faults_mpi} faults under mpiexec" COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/soak/check.sh" ${soak_faults_mpi} $<TARGET_FILE:cubist_soak_mpi> "${MPIEXEC_EXECUTABLE}")
  set_tests_properties("soak: ${soak_faults_mpi} faults under mpiexec" PROPERTIES
    LABELS mpi TIMEOUT 900 PROCESSORS 2 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
endif()
