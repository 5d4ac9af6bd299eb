# Trains on threads and twice under mpiexec, and compares every loss to the last bit. The first run under mpiexec also
# compares its losses with one rank's.
# -D PROGRAM=… -D SCHEME=… -D MESH=… -D EPOCHS=… -D RANKS=… -D MPIEXEC=… -D NUMPROC_FLAG=… -D WORK_DIR=…
file(MAKE_DIRECTORY "${WORK_DIR}")
set(train "${PROGRAM}" --scheme ${SCHEME} --mesh ${MESH} --epochs ${EPOCHS} --dropout 0.1)

function(run losses)
  execute_process(COMMAND ${ARGN} --losses "${WORK_DIR}/${losses}" OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} ended with ${code}:\n${text}")
  endif()
endfunction()

run(threads.txt ${train} --no-compare)
set(first_options --compare)
set(second_options --no-compare)
foreach(time first second)
  run(${time}.txt ${MPIEXEC} ${NUMPROC_FLAG} ${RANKS} ${train} ${${time}_options})
  execute_process(RESULT_VARIABLE differ
    COMMAND "${CMAKE_COMMAND}" -E compare_files "${WORK_DIR}/threads.txt" "${WORK_DIR}/${time}.txt")
  if(NOT differ EQUAL 0)
    message(FATAL_ERROR "the ${time} run under mpiexec has other losses than threads; see ${WORK_DIR}")
  endif()
endforeach()
