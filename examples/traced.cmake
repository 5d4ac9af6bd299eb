# Run with -P: PROGRAM writes a trace, TRACE, with events of its ranks.
file(REMOVE "${TRACE}")
execute_process(COMMAND "${PROGRAM}" --trace "${TRACE}" COMMAND_ERROR_IS_FATAL ANY)
file(READ "${TRACE}" text)
string(JSON count LENGTH "${text}" traceEvents)
string(JSON name GET "${text}" traceEvents 0 args name)
if(count LESS 100 OR NOT name STREQUAL "rank 0")
  message(FATAL_ERROR "${TRACE} has ${count} events, the first one of ${name}")
endif()
