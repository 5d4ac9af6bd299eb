# Run with -P: PROGRAM, with its arguments if it has any, must print what the page PAGE shows.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PAGE}" text)
string(FIND "${text}" "```text\n${printed}```" at)
if(at LESS 0)
  message(FATAL_ERROR "${PAGE} does not have what ${PROGRAM} prints; copy it there:\n${printed}")
endif()
