# Tests that includes only point down the layers, and that the checker catches trees that break a rule.
set(script "${CMAKE_CURRENT_SOURCE_DIR}/layers/check.cmake")
add_test(NAME "layers: include/cubist"
  COMMAND "${CMAKE_COMMAND}" "-DROOT=${PROJECT_SOURCE_DIR}/include/cubist" -P "${script}")
set_tests_properties("layers: include/cubist" PROPERTIES LABELS layers)

function(cubist_layers_fixture name message)
  set(root "${CMAKE_CURRENT_SOURCE_DIR}/layers/fixtures/${name}/cubist")
  add_test(NAME "layers: checker, ${name}" COMMAND "${CMAKE_COMMAND}" "-DROOT=${root}" -P "${script}")
  set_tests_properties("layers: checker, ${name}" PROPERTIES LABELS layers PASS_REGULAR_EXPRESSION "${message}")
endfunction()
cubist_layers_fixture(upward "core/upward.hpp: core/ may not include cubist/nn/networks/mlp.hpp")
cubist_layers_fixture(concrete "scheme/concrete.hpp: scheme/ may not include cubist/comm/threads/communicator.hpp")
cubist_layers_fixture(relative "mesh/relative.hpp: write \"../core/error.hpp\" as \"cubist/")
cubist_layers_fixture(xtensor "nn/xtensor.hpp: nn/ may not include xtensor")
cubist_layers_fixture(stray "gizmo/stray.hpp: gizmo/ is not a layer")
cubist_layers_fixture(circle "core/a.hpp, core/b.hpp: these headers include each other")
