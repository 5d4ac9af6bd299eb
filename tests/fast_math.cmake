# Programs that are compiled with flags which let a compiler reorder arithmetic, and ignore NaN: their values are right all the
# same. The references are compiled without the flags.
set(fast_math_flags "-ffast-math")
if(NOT CUBIST_QUICK_TESTS)
  list(APPEND fast_math_flags "-fassociative-math -fno-signed-zeros -fno-trapping-math" "-Ofast" "-funsafe-math-optimizations" "-ffinite-math-only")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    list(APPEND fast_math_flags "-ffp-model=fast")
  endif()
endif()

add_library(cubist_fast_math_references OBJECT fast_math/references.cpp)
target_compile_features(cubist_fast_math_references PUBLIC cxx_std_20)

foreach(flags IN LISTS fast_math_flags)
  string(MAKE_C_IDENTIFIER "cubist_fast_math${flags}" target)
  add_executable(${target} fast_math/functions.cpp fast_math/training.cpp fast_math/main.cpp)
  target_link_libraries(${target} PRIVATE cubist::cubist cubist_fast_math_references cubist_warnings)
  separate_arguments(options UNIX_COMMAND "-O2 ${flags}")
  target_compile_options(${target} PRIVATE ${options})
  # The headers use numeric_limits::infinity(), and find infinity by its bits (core/finite.hpp).
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 18)
    target_compile_options(${target} PRIVATE -Wno-nan-infinity-disabled)
  endif()
  add_test(NAME "fast math: ${flags}" COMMAND ${target})
  set_tests_properties("fast math: ${flags}" PROPERTIES LABELS threads TIMEOUT 60)
endforeach()
