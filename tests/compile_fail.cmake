# tests/compile_fail/*.cpp must not compile, for the reason that their first line gives:
#   // expect: <regular expression that the compiler's message matches>
# With CUBIST_CONTROL defined the same file must compile, so that nothing else is wrong with it.
set(script "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/check.cmake")

function(cubist_compile_fail name source)
  add_test(NAME "compile_fail: ${name}"
    COMMAND "${CMAKE_COMMAND}"
      "-DCOMPILER=${CMAKE_CXX_COMPILER}"
      "-DCOMPILER_ID=${CMAKE_CXX_COMPILER_ID}"
      "-DSTANDARD=${CMAKE_CXX20_STANDARD_COMPILE_OPTION}"
      "-DINCLUDES=$<TARGET_PROPERTY:cubist,INTERFACE_INCLUDE_DIRECTORIES>"
      "-DIMPLICIT_INCLUDES=${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES}"
      "-DSOURCE=${source}"
      -P "${script}")
  set_tests_properties("compile_fail: ${name}" PROPERTIES LABELS compile_fail TIMEOUT 300)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/*.cpp")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  cubist_compile_fail(${name} "${source}")
endforeach()

# The check itself must be able to fail.
foreach(fixture IN ITEMS compiles wrong_reason broken_control)
  cubist_compile_fail("checker, ${fixture}" "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/fixtures/${fixture}.cpp")
endforeach()
set_tests_properties("compile_fail: checker, compiles" PROPERTIES PASS_REGULAR_EXPRESSION "compiles, but must not")
set_tests_properties("compile_fail: checker, wrong_reason" PROPERTIES PASS_REGULAR_EXPRESSION "for another reason")
set_tests_properties("compile_fail: checker, broken_control" PROPERTIES PASS_REGULAR_EXPRESSION "control does not compile")
