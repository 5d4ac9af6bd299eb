# The component compiled of an installed cubist: cubist::compiled.
include("${CMAKE_CURRENT_LIST_DIR}/cubist-compiled-targets.cmake")
set(cubist_compiled_FOUND TRUE)
