# Tests a program that a signal stops; tests/stop/check.sh says how.
function(cubist_add_stop_test name label program how)
  add_test(NAME "${name}" COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/stop/check.sh" "${how}" $<TARGET_FILE:${program}> ${ARGN})
  set_tests_properties("${name}" PROPERTIES LABELS ${label} TIMEOUT 60 PROCESSORS 2 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
endfunction()

add_executable(cubist_stop stop/stop.cpp)
target_link_libraries(cubist_stop PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_stop cubist_test_precompiled)
foreach(how TERM USR1-TERM)
  cubist_add_stop_test("stop: ${how} on threads" threads cubist_stop ${how})
endforeach()
# Runs the same program on disks that refuse what it saves, where the kernel lets a test have such disks.
add_test(NAME "disk: full, read-only, and used by another run" COMMAND
  "${CMAKE_CURRENT_SOURCE_DIR}/disk/check.sh" $<TARGET_FILE:cubist_stop>)
set_tests_properties("disk: full, read-only, and used by another run" PROPERTIES LABELS threads TIMEOUT 60 PROCESSORS 2 SKIP_RETURN_CODE 77)

if(TARGET cubist_mpi AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_executable(cubist_stop_mpi stop/stop.cpp)
  target_link_libraries(cubist_stop_mpi PRIVATE cubist::mpi cubist_warnings)
  cubist_use_precompiled(cubist_stop_mpi cubist_test_precompiled)
  target_compile_definitions(cubist_stop_mpi PRIVATE CUBIST_TEST_MPI)
  foreach(how rank-TERM-USR1 script-TERM)
    cubist_add_stop_test("stop: ${how} under mpiexec" mpi cubist_stop_mpi ${how} "${MPIEXEC_EXECUTABLE}")
  endforeach()
endif()
