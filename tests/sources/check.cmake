# Run with -P and ROOT=<folder of tests>. Checks that the sources of tests keep the rules below.
cmake_minimum_required(VERSION 3.24)

file(GLOB_RECURSE sources RELATIVE "${ROOT}" "${ROOT}/*_test.cpp" "${ROOT}/*_test.cpp.in")
list(FILTER sources EXCLUDE REGEX "^sources/")
if(NOT sources)
  message(FATAL_ERROR "no tests in ${ROOT}")
endif()
foreach(source IN LISTS sources)
  file(READ "${ROOT}/${source}" text)
  # In CMake's lists of cases these characters join or split names, so such a case would never run.
  if(text MATCHES "TEST_CASE\\([ \n]*\"([^\"]*[][;][^\"]*)\"")
    message(SEND_ERROR "${source} has a case '${CMAKE_MATCH_1}', which ctest would not run; name it without brackets and semicolons")
  endif()
  # In a healthy run replicas are equal to the bit, so every test that trains a network compares them. Other tests that call
  # step count words, memory or events, or train on simulated matrices, which have no elements.
  if(source MATCHES "^(nn|training|io|dataset|scheme)/" AND text MATCHES "(\\.|->)step\\(" AND text MATCHES "(backward|compute_gradients)\\("
     AND NOT text MATCHES "checked_(sharded_)?step\\(|check_replicas")
    message(SEND_ERROR "${source} trains a network and does not compare replicas; update it by checked_step (support/checked_step.hpp)")
  endif()
endforeach()
