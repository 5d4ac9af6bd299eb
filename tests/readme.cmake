# Tests the README's quick start with every scheme that its comment lists, on threads and under mpiexec: the program as it
# stands there, and in a namespace for each other scheme, with fewer steps. The headers are compiled once for all of them.
include(CubistReadme)
set(folder "${PROJECT_SOURCE_DIR}/examples/my_program")
cubist_page_program(program "${PROJECT_SOURCE_DIR}/README.md" cpp "${folder}/my_program.cpp")
cubist_page_program(project "${PROJECT_SOURCE_DIR}/README.md" cmake "${folder}/CMakeLists.txt")

set(schemes)
if(program MATCHES "using Scheme = cubist::([A-Za-z0-9]+);  // or ([A-Za-z0-9, ]+)\n")
  string(REPLACE ", " ";" schemes "${CMAKE_MATCH_1}, ${CMAKE_MATCH_2}")
endif()
list(LENGTH schemes count)
if(count LESS 6 OR NOT program MATCHES "using Backend = cubist::Threads;.*step < 10;")
  message(FATAL_ERROR "the README's program has other schemes, another backend or other steps than its test expects: ${schemes}")
endif()

string(REGEX MATCHALL "#include [^\n]+\n" includes "${program}")
string(REPLACE ";" "" includes "${includes}")
string(REGEX REPLACE "#include [^\n]+\n" "" program "${program}")
string(REPLACE "int main(" "int run(" program "${program}")

# cubist_readme_program(<target> <backend> <lines before the program>)
function(cubist_readme_program target backend before)
  string(REPLACE "using Backend = cubist::Threads;" "using Backend = cubist::${backend};" text "${program}")
  set(source "${includes}${before}")
  set(calls)
  set(first TRUE)
  foreach(scheme IN LISTS schemes)
    if(first)
      string(APPEND source "${text}")
      string(APPEND calls "  int failed = run(argc, argv);\n")
      set(first FALSE)
    else()
      string(REGEX REPLACE "using Scheme = cubist::[A-Za-z0-9]+;" "using Scheme = cubist::${scheme};" other "${text}")
      string(REPLACE "step < 10;" "step < 2;" other "${other}")
      string(APPEND source "namespace with_${scheme}\n{\n${other}}\n")
      string(APPEND calls "  failed += with_${scheme}::run(argc, argv);\n")
    endif()
  endforeach()
  string(APPEND source "int main(int argc, char** argv)\n{\n${calls}  return failed;\n}\n")
  file(CONFIGURE OUTPUT ${target}.cpp CONTENT "${source}" @ONLY)
  add_executable(${target} "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
endfunction()

# All schemes begin with the same weights, and so have the same losses up to rounding.
set(end "layers\\.0\\.weight has 262144 elements\n")
math(EXPR others "${count} - 1")
string(REPEAT "step 0  loss 0\\.0478[^\n]*\nstep 1  loss 0\\.[^\n]*\n${end}" ${others} output)
string(PREPEND output "step 0  loss 0\\.0478[^\n]*\n.*step 9  loss 0\\.00258[^\n]*\n${end}")

# (The test package: find_package compiles the folder as it stands, without precompiled headers.)
# Even after this line, the program's aliases mean what it says.
cubist_readme_program(readme_quick_start Threads "using namespace cubist;\n")
target_link_libraries(readme_quick_start PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(readme_quick_start cubist_network_precompiled)
add_test(NAME "readme: quick start" COMMAND readme_quick_start)
set_tests_properties("readme: quick start" PROPERTIES LABELS examples TIMEOUT 60 ENVIRONMENT CUBIST_BLAS_WARNING=off
  PASS_REGULAR_EXPRESSION "^${output}$")

if(TARGET cubist_mpi)
  cubist_readme_program(readme_quick_start_mpi Mpi "#include <cubist/backend/mpi.hpp>\n")
  target_link_libraries(readme_quick_start_mpi PRIVATE cubist::mpi cubist_warnings)
  cubist_use_precompiled(readme_quick_start_mpi cubist_network_precompiled)
  add_test(NAME "readme: quick start under mpiexec"
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 8 $<TARGET_FILE:readme_quick_start_mpi>)
  set_tests_properties("readme: quick start under mpiexec" PROPERTIES LABELS mpi TIMEOUT 60 PROCESSORS 2
    ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}" PASS_REGULAR_EXPRESSION "${output}")
endif()
