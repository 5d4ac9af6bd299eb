# CUBIST_LOOPS_SOURCES: the sources of the loops over elements that include/cubist/compiled_loops.hpp lists, which are the same
# for all backends. The compiled library has them, and the tests link them, optimized.
set(CUBIST_LOOPS_SOURCES)
foreach(scalar IN ITEMS float double)
  set(instances "CUBIST_LOOPS(template, ${scalar})")
  if(scalar STREQUAL double)
    string(APPEND instances "\nCUBIST_OTHER_LOOPS(template)")
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/compiled/loops_${scalar}.cpp" @ONLY CONTENT
"#include <cubist/nn/functions/rotary.hpp>
#include <cubist/nn/layers/dropout.hpp>
#include <cubist/nn/layers/gated_linear.hpp>
#include <cubist/nn/losses/loss.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/compiled_loops.hpp>
namespace cubist::CUBIST_ABI::detail
{
@instances@
}
")
  list(APPEND CUBIST_LOOPS_SOURCES "${PROJECT_BINARY_DIR}/compiled/loops_${scalar}.cpp")
endforeach()
