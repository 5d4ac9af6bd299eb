# Tests on several hosts, which scripts/hosts makes out of this one where the kernel allows it: label multihost.
# Each test starts on hosts of its own, and shares the cores with nothing else.
function(cubist_add_multihost_test name target slots)
  set(name "multihost: ${name} on 4 x ${slots} ranks")
  add_test(NAME ${name} COMMAND
    "${PROJECT_SOURCE_DIR}/scripts/hosts" --hosts 4 --slots ${slots} -- $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS multihost SKIP_RETURN_CODE 77 RUN_SERIAL ON TIMEOUT 300)
endfunction()

add_executable(cubist_multihost_test multihost/hosts.cpp)
target_link_libraries(cubist_multihost_test PRIVATE cubist::mpi cubist_warnings)

foreach(slots 1 2)
  cubist_add_multihost_test(hosts cubist_multihost_test ${slots} 4)
  set(layers comm scheme matmul nn)
  if(CUBIST_QUICK_TESTS AND slots EQUAL 1)
    set(layers comm) # the others send as much between 4 x 2 ranks, and more
  endif()
  foreach(layer IN LISTS layers)
    if(TARGET cubist_${layer}_mpi_tests)
      cubist_add_multihost_test(${layer} cubist_${layer}_mpi_tests ${slots})
    endif()
  endforeach()
endforeach()
