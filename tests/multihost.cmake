# Tests on several hosts, with the label multihost. scripts/hosts makes the hosts out of this one where the kernel allows it.
# Each test starts on its own hosts, and shares the cores with nothing else.
function(cubist_add_multihost_test name target slots)
  set(name "multihost: ${name} on 4 x ${slots} ranks")
  add_test(NAME ${name} COMMAND
    "${PROJECT_SOURCE_DIR}/scripts/hosts" --hosts 4 --slots ${slots} -- $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS multihost SKIP_RETURN_CODE 77 RUN_SERIAL ON TIMEOUT 300)
endfunction()

add_executable(cubist_multihost_test multihost/hosts.cpp)
target_link_libraries(cubist_multihost_test PRIVATE cubist::mpi cubist_warnings)
cubist_use_precompiled(cubist_multihost_test cubist_test_precompiled)

foreach(slots 1 2)
  cubist_add_multihost_test(hosts cubist_multihost_test ${slots} 4)
  cubist_add_multihost_test(comm cubist_comm_mpi_tests ${slots})
endforeach()
# All that algorithms see of the network is that data is remote, so one scheme for each algorithm, and a network, are enough.
if(CUBIST_QUICK_TESTS)
  set(scheme_cases "Summa25D multiplies small*,Cube3D multiplies small*")
  set(nn_cases "five layers train as on one rank,transformers on Summa25D*- 0")
  set(pblas_cases "pgemm by a scheme*,a wrong argument*,panels of*")
endif()
cubist_add_multihost_test(scheme cubist_scheme_mpi_tests 2 ${scheme_cases})
cubist_add_multihost_test(nn cubist_nn_mpi_tests 2 ${nn_cases})
cubist_add_multihost_test(pblas cubist_pblas_mpi_tests 2 ${pblas_cases})
if(NOT CUBIST_QUICK_TESTS)
  cubist_add_multihost_test(matmul cubist_matmul_mpi_tests 2)
endif()
