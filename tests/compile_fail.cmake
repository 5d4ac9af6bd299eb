# tests/compile_fail/*.cpp must not compile, for the reason that their first line gives:
#   // expect: <regular expression that the compiler's message matches>
# With CUBIST_CONTROL defined the same file must compile, so that nothing else is wrong with it.
set(folder "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail")
set(precompiled "${CMAKE_CURRENT_BINARY_DIR}/compile_fail/precompiled.hpp")
configure_file("${folder}/precompiled.hpp" "${precompiled}" COPYONLY)

function(cubist_compile_fail name source)
  add_test(NAME "compile_fail: ${name}"
    COMMAND "${CMAKE_COMMAND}"
      "-DCOMPILER=${CMAKE_CXX_COMPILER}"
      "-DCOMPILER_ID=${CMAKE_CXX_COMPILER_ID}"
      "-DSTANDARD=${CMAKE_CXX20_STANDARD_COMPILE_OPTION}"
      "-DINCLUDES=$<TARGET_PROPERTY:cubist,INTERFACE_INCLUDE_DIRECTORIES>"
      "-DIMPLICIT_INCLUDES=${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES}"
      "-DPRECOMPILED=${precompiled}"
      "-DSOURCE=${source}"
      -P "${folder}/check.cmake")
  set_tests_properties("compile_fail: ${name}" PROPERTIES LABELS compile_fail TIMEOUT 300)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  cubist_compile_fail(${name} "${source}")
  set_tests_properties("compile_fail: ${name}" PROPERTIES FIXTURES_REQUIRED precompiled)
endforeach()
cubist_compile_fail("precompiled headers" "")
set_tests_properties("compile_fail: precompiled headers" PROPERTIES FIXTURES_SETUP precompiled)

# The check itself must be able to fail.
foreach(fixture IN ITEMS compiles wrong_reason broken_control)
  cubist_compile_fail("checker, ${fixture}" "${folder}/fixtures/${fixture}.cpp")
  set_tests_properties("compile_fail: checker, ${fixture}" PROPERTIES FIXTURES_REQUIRED precompiled)
endforeach()
set_tests_properties("compile_fail: checker, compiles" PROPERTIES PASS_REGULAR_EXPRESSION "compiles, but must not")
set_tests_properties("compile_fail: checker, wrong_reason" PROPERTIES PASS_REGULAR_EXPRESSION "for another reason")
set_tests_properties("compile_fail: checker, broken_control" PROPERTIES PASS_REGULAR_EXPRESSION "control does not compile")
