# The examples in CONTRIBUTING.md and docs/extending.md are complete changes. This applies them to a copy, builds it and runs it,
# with the layer and the network of docs/layers.md, and the activation of docs/activations.md.
include(contributing/extract.cmake)
set(page "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md")
set(extending_page "${PROJECT_SOURCE_DIR}/docs/extending.md")
set(layers_page "${PROJECT_SOURCE_DIR}/docs/layers.md")
set(activations_page "${PROJECT_SOURCE_DIR}/docs/activations.md")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}" "${extending_page}" "${layers_page}" "${activations_page}"
  "${PROJECT_SOURCE_DIR}/include/cubist/scheme/catalogue.hpp" "${PROJECT_SOURCE_DIR}/include/cubist/nn/dense/activation.hpp")
set(examples "${CMAKE_CURRENT_BINARY_DIR}/contributing")
cubist_extract_page("${page}" "${PROJECT_SOURCE_DIR}" "${examples}")
cubist_extract_page("${extending_page}" "${PROJECT_SOURCE_DIR}" "${examples}")
cubist_extract_page("${layers_page}" "${PROJECT_SOURCE_DIR}" "${examples}")
cubist_extract_page("${activations_page}" "${PROJECT_SOURCE_DIR}" "${examples}")

add_executable(cubist_contributing_tests contributing/examples.cpp)
target_include_directories(cubist_contributing_tests BEFORE PRIVATE "${examples}" "${examples}/include")
target_link_libraries(cubist_contributing_tests PRIVATE cubist::cubist cubist_test_main cubist_warnings)
add_test(NAME "contributing: examples" COMMAND cubist_contributing_tests)
set_tests_properties("contributing: examples" PROPERTIES LABELS examples TIMEOUT 60)
