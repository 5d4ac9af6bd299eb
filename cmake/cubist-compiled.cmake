# An installed cubist's component compiled: cubist::compiled.
include("${CMAKE_CURRENT_LIST_DIR}/cubist-compiled-targets.cmake")
set(cubist_compiled_FOUND TRUE)
