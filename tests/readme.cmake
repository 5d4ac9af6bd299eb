# The README's quick start is a program: it is built and run as it stands there.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md")
file(READ "${PROJECT_SOURCE_DIR}/README.md" readme)
string(FIND "${readme}" "```cpp\n" begin)
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${readme}" ${begin} -1 readme)
string(FIND "${readme}" "```" end)
string(SUBSTRING "${readme}" 0 ${end} program)
file(CONFIGURE OUTPUT readme_quick_start.cpp CONTENT "${program}" @ONLY)

add_executable(readme_quick_start "${CMAKE_CURRENT_BINARY_DIR}/readme_quick_start.cpp")
target_link_libraries(readme_quick_start PRIVATE cubist::cubist cubist_warnings)
add_test(NAME "readme: quick start" COMMAND readme_quick_start)
set_tests_properties("readme: quick start" PROPERTIES LABELS examples TIMEOUT 60 ENVIRONMENT CUBIST_BLAS_WARNING=off
  PASS_REGULAR_EXPRESSION "step 9  loss .*layers.0.weight has 262144 elements")
