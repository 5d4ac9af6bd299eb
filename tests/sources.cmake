# Checks rules for the sources of tests, because a test that breaks them could not fail, and that the checker catches sources
# that break one.
set(script "${CMAKE_CURRENT_SOURCE_DIR}/sources/check.cmake")
add_test(NAME "sources: tests" COMMAND "${CMAKE_COMMAND}" "-DROOT=${CMAKE_CURRENT_SOURCE_DIR}" -P "${script}")
set_tests_properties("sources: tests" PROPERTIES LABELS layers)
foreach(fixture "name has a case" "replicas trains a network")
  string(REGEX MATCH "^[a-z]+" name "${fixture}")
  string(REPLACE "${name} " "${name}_test.cpp.in " message "${fixture}")
  add_test(NAME "sources: checker, ${name}"
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${CMAKE_CURRENT_SOURCE_DIR}/sources/fixtures/${name}" -P "${script}")
  set_tests_properties("sources: checker, ${name}" PROPERTIES LABELS layers PASS_REGULAR_EXPRESSION "${message}")
endforeach()
