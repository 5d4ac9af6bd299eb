# Run with -P; see ../compile_fail.cmake. The compiler is called directly, so that the check needs
# no lock on the build directory.
cmake_minimum_required(VERSION 3.24)

# message(FATAL_ERROR) alone would fold the compiler's lines.
function(fail)
  message(NOTICE "${SOURCE}: ${ARGV}")
  message(FATAL_ERROR "not as it must be")
endfunction()

# Naming the compiler's own directories on its command line would change their order.
list(REMOVE_DUPLICATES INCLUDES)
list(REMOVE_ITEM INCLUDES ${IMPLICIT_INCLUDES})
list(TRANSFORM INCLUDES PREPEND -I)
set(command "${COMPILER}" ${STANDARD} ${INCLUDES})

# Without a source the headers that all of them include are precompiled.
if(NOT SOURCE)
  execute_process(COMMAND ${command} -x c++-header "${PRECOMPILED}" -o "${PRECOMPILED}.gch" COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()

file(STRINGS "${SOURCE}" first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  fail("the first line must be '// expect: <regular expression>'")
endif()
set(expected "${CMAKE_MATCH_1}")

# The compiler would quote the source line, and so the source's words would match instead of the compiler's.
if(COMPILER_ID MATCHES Clang)
  set(no_quotes -fno-caret-diagnostics)
else()
  set(no_quotes -fno-diagnostics-show-caret)
endif()

list(APPEND command ${no_quotes} -include "${PRECOMPILED}" -fsyntax-only "${SOURCE}")

execute_process(COMMAND ${command} -DCUBIST_CONTROL RESULT_VARIABLE status ERROR_VARIABLE message)
if(NOT status EQUAL 0)
  fail("its control does not compile:\n${message}")
endif()

execute_process(COMMAND ${command} RESULT_VARIABLE status ERROR_VARIABLE message)
if(status EQUAL 0)
  fail("compiles, but must not")
endif()
if(NOT message MATCHES "${expected}")
  fail("does not compile, but for another reason than '${expected}':\n${message}")
endif()
