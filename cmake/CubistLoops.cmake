# Sets CUBIST_LOOPS_SOURCES to the sources of the loops over elements that include/cubist/compiled/loops.hpp lists, which all
# backends share. The compiled library contains them, and tests link them, optimized.
set(CUBIST_LOOPS_SOURCES)
foreach(scalar IN ITEMS float double)
  set(instances "CUBIST_LOOPS(template, ${scalar})")
  if(scalar STREQUAL double)
    string(APPEND instances "\nCUBIST_OTHER_LOOPS(template)")
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/compiled/loops_${scalar}.cpp" @ONLY CONTENT
"#include <cubist/nn/attention/rotary.hpp>
#include <cubist/nn/dropout.hpp>
#include <cubist/nn/dense/gated_linear.hpp>
#include <cubist/nn/losses/loss.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/compiled/loops.hpp>
namespace cubist::CUBIST_ABI::detail
{
@instances@
}
")
  list(APPEND CUBIST_LOOPS_SOURCES "${PROJECT_BINARY_DIR}/compiled/loops_${scalar}.cpp")
endforeach()

# Without optimization, loops over elements take most of the time of a test that trains. So tests and examples that are compiled
# quickly link optimized loops, for one instruction set. The tests of core and engine compile the loops for all instruction sets,
# just as users' compilers do.
if(CUBIST_QUICK_TESTS)
  add_library(cubist_quick_loops OBJECT EXCLUDE_FROM_ALL ${CUBIST_LOOPS_SOURCES})
  target_compile_options(cubist_quick_loops PRIVATE -O2 -U__OPTIMIZE__ INTERFACE "SHELL:-include cubist/compiled/loops.hpp")
  target_compile_definitions(cubist_quick_loops INTERFACE CUBIST_COMPILED_LOOPS)
  target_link_libraries(cubist_quick_loops PRIVATE cubist::cubist)
endif()

# cubist_use_loops(<target>): links a program of this project to the optimized loops, if programs are compiled quickly and there
# is no compiled library, which would contain them.
function(cubist_use_loops target)
  if(TARGET cubist_quick_loops AND NOT TARGET cubist_compiled)
    get_target_property(linked ${target} LINK_LIBRARIES)
    if(NOT cubist_quick_loops IN_LIST linked)
      target_link_libraries(${target} PRIVATE cubist_quick_loops)
    endif()
  endif()
endfunction()
