# A job in which a rank fails ends soon, as failed, and with one message.
add_executable(cubist_job job/job.cpp)
target_link_libraries(cubist_job PRIVATE cubist::mpi cubist_warnings)

function(cubist_add_job_test what)
  add_test(NAME "mpi: job, ${what}" COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/job/check.sh" "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:cubist_job> "${what}" ${ARGN})
  set_tests_properties("mpi: job, ${what}" PROPERTIES LABELS mpi TIMEOUT 60 PROCESSORS 2 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
endfunction()

cubist_add_job_test("none throws")
cubist_add_job_test("throws" "cubist: rank 2: no weights.bin")
cubist_add_job_test("throws under way" "cubist: rank 2: no weights.bin")
cubist_add_job_test("throws while others compute" "cubist: rank 2: no weights.bin")
# The lowest rank prints its message, unless a busy machine delays it.
cubist_add_job_test("all throw" ": no weights.bin")
cubist_add_job_test("some throw" ": no weights.bin")
cubist_add_job_test("drops" "cubist: rank 2 dropped the request of its all_reduce on rank 2 of 4")
cubist_add_job_test("exits" "cubist: the program called exit inside launch")
foreach(what "is late" "is stopped")
  cubist_add_job_test("${what}" "waited for 1500 ms in barrier on ranks {0, 1, 2, 3}, longer than the time limit allows; nothing received from ranks {2};")
endforeach()
cubist_add_job_test("is late for a sum" "nothing received from ranks {2}")
cubist_add_job_test("has an error" "cubist: rank 2: all_reduce of 100000 double by sum failed as call 0 of rank 2")
cubist_add_job_test("has a wrong size" "called it with another size, type, root or operation")
cubist_add_job_test("has a wrong order" "called barrier")
cubist_add_job_test("dies")
cubist_add_job_test("is killed")
cubist_add_job_test("crashes")
