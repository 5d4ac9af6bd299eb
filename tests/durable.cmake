# Tests that what is saved survives a crash of the machine: before the rename each rank that wrote to the file calls fsync on
# it, and after the rename the folder gets an fsync. A shim checks this, which records the calls of tests that save. The shim
# also interrupts each call of a save in turn (support/interrupted.hpp).
add_library(cubist_durable_shim MODULE durable/shim.cpp)
target_compile_features(cubist_durable_shim PRIVATE cxx_std_20)
target_link_libraries(cubist_durable_shim PRIVATE cubist_warnings ${CMAKE_DL_LIBS})

function(cubist_add_durable_test what program cases)
  add_test(NAME "durable: ${what}" COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/durable/check.sh" $<TARGET_FILE:cubist_durable_shim> $<TARGET_FILE:${program}> "${cases}")
  set_tests_properties("durable: ${what}" PROPERTIES LABELS threads TIMEOUT 120)
endfunction()

cubist_add_durable_test("files and checkpoints" cubist_io_tests "*saved on one mesh*,the newest checkpoints are kept*,files that are saved in the background*,a save that is interrupted*,a save in the background that fills*")
cubist_add_durable_test("weights" cubist_nn_tests "large models are saved in several files*,a save that is interrupted*")
